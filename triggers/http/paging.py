"""`limit` and `cursor` of every list (CONTRACT "HTTP"): the cursor is opaque, and names the last row looked at."""

from __future__ import annotations

import base64
import binascii

import azure.functions as func

from shared.errors import Refusal

MAX_PAGE = 1000
DEFAULT_PAGE = 100
_MAX_DIGITS = 10


def page(req: func.HttpRequest) -> tuple[int, str]:
    """The limit, and the position behind the cursor ("" for the beginning). Raises Refusal (400)."""
    given = req.params.get("limit", str(DEFAULT_PAGE))
    # a longer number is no limit either, and `int` refuses thousands of digits in its own way
    if not given.isdecimal() or len(given) > _MAX_DIGITS or not 1 <= int(given) <= MAX_PAGE:
        raise Refusal(400, "LIMIT_INVALID", f"limit must be a whole number from 1 to {MAX_PAGE}")
    try:
        position = base64.b64decode(req.params.get("cursor", ""), altchars=b"-_", validate=True).decode()
    except (binascii.Error, ValueError):
        raise bad_cursor() from None
    return int(given), position


def cursor(position: str | None) -> str | None:
    """What the answer's `next` says."""
    return base64.urlsafe_b64encode(position.encode()).decode() if position else None


def bad_cursor() -> Refusal:
    return Refusal(400, "CURSOR_INVALID", "take the cursor from `next` of the page before")
