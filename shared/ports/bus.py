"""Service Bus: directives out, peeks at lanes, replies that were dead-lettered."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from shared.contracts.messages import Directive
from shared.core.jobs.backlog import LaneLook


class DirectivePublisher(Protocol):
    """The directive topics."""

    async def publish(self, directive: Directive, *, time_to_live_s: float | None) -> None:
        """Sends to the topic of the directive's lane. None: the topic's time to live. Raises PublishUnavailable."""


class AdmissionCalls(Protocol):
    """Calls to look at a tenant's admission state, at what is owed to one of its jobs (R51), or at the breaker of one
    of its gates (R63); or to work on a bulk (R65).
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
        """Calls for an admission now or at an instant. A repeated call costs one check. `breaker_of`: id of a quota.
        Raises BusUnavailable.
        """

    async def call_allocation(self, gate_id: str, *, at: datetime, since: datetime | None = None) -> None:
        """Calls for an allocation of a quota over all tenants at an instant, unless one began after `since` (R54).
        Default of `since`: that instant. Raises BusUnavailable.
        """


class Lanes(Protocol):
    """A look at what waits on a lane, without taking it."""

    async def replies(self, lane: int, *, since: datetime) -> LaneLook:
        """Returns the oldest replies on the lane, by a check that began at `since` or later. Raises BusUnavailable.

        One read serves all callers of the process that accept its age.
        """

    async def directives(self, lane: int, service: str, *, since: datetime) -> LaneLook:
        """Returns the oldest directives of one service, as `replies` does."""


class Counts(Protocol):
    """The bus's own counts of directives."""

    async def in_flight(self, lane: int, service: str | None) -> int:
        """Returns how many directives of the service, or of all services, wait on the lane or are in progress.

        Raises CountsForbidden, BusUnavailable.
        """


@dataclass(frozen=True, kw_only=True)
class DeadReply:
    """A reply that the bus gave up delivering to us."""

    body: bytes
    lane: int
    message_id: str
    sequence_number: int
    delivery_count: int
    enqueued_at: datetime
    #: why it was dead-lettered, by the bus, for example `MaxDeliveryCountExceeded`
    reason: str


class DeadReplies(Protocol):
    """Replies that no function reads any more, by lane; lane None: those of the queue that the lanes share."""

    async def waiting(self, lane: int | None) -> int:
        """Returns how many messages wait, up to a limit of the adapter. It receives none. Raises BusUnavailable."""

    async def drain(self, lane: int | None, take: Callable[[DeadReply], Awaitable[bool]]) -> bool:
        """Hands them to `take` one by one, up to a bound, and removes each for which it gives True; the others stay.

        False: the bound was reached, so there may be more. What `take` raises ends the drain and is raised; that
        message stays. Raises BusUnavailable.
        """
