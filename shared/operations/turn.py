"""The turns that writers of one admission state take within a process."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Any


class Turn(asyncio.Lock):
    """One writer of a desk at a time in a process, and what waits for it."""

    def __init__(self) -> None:
        super().__init__()
        #: callers that asked for an admission, by number, and up to which one a turn has begun after they asked
        self.asked = 0
        self.covered = 0
        #: an entry of a log was there already at the last write
        self.is_behind = False
        #: held by the end, or the creation, that works for the others that wait for these
        self.ends, self.creations = asyncio.Lock(), asyncio.Lock()
        #: until then creations are staged at once: the quotas or the counts were not known
        self.stages_until: datetime | None = None
        #: creations
        self.arrivals: list[Any] = []
