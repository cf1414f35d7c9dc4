"""The range of a list: one page of rows, newest first."""

from __future__ import annotations

from datetime import datetime
from typing import Required, TypedDict


class PageRange(TypedDict, total=False):
    """Keyword arguments of a list: rows after the cursor `after`, from `since` on and before `until`."""

    after: Required[str | None]
    limit: Required[int]
    since: datetime | None
    until: datetime | None
