"""Backlogs of the bus, which are not failures of a service (R8): the oldest messages of a lane, and further waits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

#: maximum number of messages that one read of a subscription returns: the oldest, including messages in processing
MAX_SHOWN = 32
#: maximum difference between the clock of the bus and those of the app's processes
_CLOCKS_DIFFER = timedelta(minutes=1)
#: maximum wait on a lane, so that the end of a backlog is noticed in time
LONGEST_WAIT = timedelta(minutes=5)


@dataclass(frozen=True)
class LaneLook:
    """The oldest messages of a subscription at one time, as pairs (message id, time at which the bus accepted it)."""

    #: start of the read, by the clock of the process that read
    looked_at: datetime
    oldest: Sequence[tuple[str, datetime]] = ()
    #: `True` if the subscription had no further messages
    is_all: bool = True

    def has_older(self, than: datetime) -> bool:
        """Returns `True` if the bus accepted one of the messages at or before that time."""
        return any(enqueued_at <= than for _, enqueued_at in self.oldest)

    def ahead_of(self, message_id: str, sent_at: datetime) -> int | None:
        """Returns the number of messages before this message, which was sent at about `sent_at`. Returns None if this
        message has left the subscription.

        If not all messages were read, and the last message read is older, this message may be behind the last message.
        The result is then `MAX_SHOWN`, which stands for any larger number.
        """
        for place, (known, _) in enumerate(self.oldest):
            if known == message_id:
                return place
        behind = not self.is_all and self.oldest[-1][1] <= sent_at + _CLOCKS_DIFFER
        return MAX_SHOWN if behind else None


def together(looks: Sequence[LaneLook]) -> LaneLook:
    """Combines the messages of several subscriptions into one `LaneLook`."""
    return LaneLook(
        min(look.looked_at for look in looks),
        [message for look in looks for message in look.oldest],
        all(look.is_all for look in looks),
    )


def next_wait(ack_timeout_s: float, waited: timedelta) -> timedelta:
    """Returns the next wait on a lane: the ACK timeout plus the time `waited` so far, at most `LONGEST_WAIT`."""
    return min(timedelta(seconds=ack_timeout_s) + waited, LONGEST_WAIT)
