"""LUCIUS's own backlog is not a failure of a service (R8): what a read of a lane shows, and the further wait."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

#: messages that one look shows: the oldest of a subscription, those that are being worked on among them
MAX_SHOWN = 32
#: how far the clock of the bus may be from those of the app's processes
_CLOCKS_DIFFER = timedelta(minutes=1)
#: no wait on a lane is longer, so that no end of a backlog is noticed later
LONGEST_WAIT = timedelta(minutes=5)


@dataclass(frozen=True)
class LaneLook:
    """The oldest messages of a subscription at one instant, as (message id, when the bus took it)."""

    #: when the look began, by the clock of the process that looked
    looked_at: datetime
    oldest: Sequence[tuple[str, datetime]] = ()
    #: these are all that there are
    is_all: bool = True

    def has_older(self, than: datetime) -> bool:
        """Returns whether there is a message that the bus accepted at or before that instant."""
        return any(enqueued_at <= than for _, enqueued_at in self.oldest)

    def ahead_of(self, message_id: str, sent_at: datetime) -> int | None:
        """Returns the number of messages before this one, which was sent about that instant. None: it is no longer
        there.

        If the check does not show all messages and the last one shown is older, this message may be behind it: the
        result is `MAX_SHOWN`, which stands for any larger number.
        """
        for place, (known, _) in enumerate(self.oldest):
            if known == message_id:
                return place
        behind = not self.is_all and self.oldest[-1][1] <= sent_at + _CLOCKS_DIFFER
        return MAX_SHOWN if behind else None


def together(looks: Sequence[LaneLook]) -> LaneLook:
    """Returns one look at all places."""
    return LaneLook(
        min(look.looked_at for look in looks),
        [message for look in looks for message in look.oldest],
        all(look.is_all for look in looks),
    )


def next_wait(ack_timeout_s: float, waited: timedelta) -> timedelta:
    """Returns the next wait on a lane after `waited`: the ACK timeout first, then twice the one before."""
    return min(timedelta(seconds=ack_timeout_s) + waited, LONGEST_WAIT)
