"""The turns that writers of one admission state take within a process."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Any


class Turn(asyncio.Lock):
    """One writer of a desk at a time in a process, and what waits for it."""

    def __init__(self) -> None:
        super().__init__()
        #: jobs whose ends wait for a turn that begins after they asked
        self.ended: set[str] = set()
        #: an entry of a log was there already at the last write
        self.is_behind = False
        #: held by the end, the creation or the waiting job that works for the others that wait for these
        self.ends, self.creations, self.joining = asyncio.Lock(), asyncio.Lock(), asyncio.Lock()
        #: when this process last had a turn called for
        self.called_at: datetime | None = None
        #: until then creations are staged at once: the quotas or the counts were not known
        self.stages_until: datetime | None = None
        #: creations, and accepted jobs that have yet to join the waiting queue
        self.arrivals: list[Any] = []
        self.joins: list[Any] = []
