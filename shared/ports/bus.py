"""Service Bus: directives and their counts, lanes, admission calls, and dead-lettered replies."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from shared.contracts.messages import Directive
from shared.core.jobs.backlog import LaneLook


class DirectivePublisher(Protocol):
    """The publisher of directives to their topics."""

    async def publish(self, directive: Directive, *, time_to_live_s: float | None) -> None:
        """Publishes the directive to the topic of its lane. Time to live None means the topic's default. Raises
        PublishUnavailable.
        """


class AdmissionCalls(Protocol):
    """Calls to check a tenant's admission state, job (R51) or breaker (R63), to allocate a quota (R54), or to work on a
    bulk operation (R65).
    """

    async def call(
        self,
        tenant: str,
        job_id: str | None = None,
        *,
        bulk_id: str | None = None,
        breaker_of: str | None = None,
        at: datetime | None = None,
    ) -> None:
        """Sends one of these calls, except an allocation, now or at the given time. A repeated call costs one check.
        `breaker_of` is the id of a quota.

        Raises BusUnavailable.
        """

    async def call_allocation(self, gate_id: str, *, at: datetime, since: datetime | None = None) -> None:
        """Sends a call for an allocation of a quota over all tenants at the given time (R54).

        The call can have no effect if an allocation started after `since`. Default of `since`: the given time. Raises
        BusUnavailable.
        """


class Lanes(Protocol):
    """The messages that wait on a lane, read without receiving the messages."""

    async def replies(self, lane: int, *, since: datetime) -> LaneLook:
        """Returns the oldest replies on the lane and in the queue that the lanes share. Raises BusUnavailable.

        The read started at `since` or later. One read serves all callers of the process that accept its age.
        """

    async def directives(self, lane: int, service: str, *, since: datetime) -> LaneLook:
        """Returns the oldest directives of one service, as `replies` does."""


class Counts(Protocol):
    """Counts of directives from the bus."""

    async def in_flight(self, lane: int, service: str | None) -> int:
        """Returns the number of directives on the lane, waiting or in progress, for one service or for all.

        Raises CountsForbidden, BusUnavailable.
        """


@dataclass(frozen=True, kw_only=True)
class DeadReply:
    """A reply that no function reads."""

    body: bytes
    lane: int
    message_id: str
    sequence_number: int
    delivery_count: int
    enqueued_at: datetime
    #: the bus's reason for the dead-lettering, for example `MaxDeliveryCountExceeded`; "no reason given" if the reply
    #: was not dead-lettered
    reason: str


class DeadReplies(Protocol):
    """Replies that no function reads, by lane. Lane None means the replies in the queue that the lanes share."""

    async def waiting(self, lane: int | None) -> int:
        """Returns the number of waiting messages, up to a limit (Azure: 32 of each dead-letter queue and of the shared
        queue). Receives no message. Raises BusUnavailable.
        """

    async def drain(self, lane: int | None, take: Callable[[DeadReply], Awaitable[bool]]) -> bool:
        """Calls `take` with each message, up to a limit (Azure: 200 messages or 40 s for each queue). Removes the
        messages for which `take` returns `True`. Other messages stay.

        Returns `False` if the limit was reached, since more messages can be waiting. An error of `take` ends the drain
        and is raised, and its message stays. Raises BusUnavailable.
        """
