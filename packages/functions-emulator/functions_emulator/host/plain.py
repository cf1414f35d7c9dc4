"""The bare value of what a trigger or an input hands over, for parameters annotated `str` or `bytes`."""

from __future__ import annotations

import json
from typing import Any


def plain_value(value: Any, expected: type) -> Any:
    """The body of a message, the content of a blob, a timer's JSON; what is bare already stays."""
    if value is None or isinstance(value, str | bytes):
        content = value
    elif hasattr(value, "get_body"):
        content = value.get_body()
    elif hasattr(value, "read"):
        content = value.read()
    elif hasattr(value, "past_due"):
        timer = {"IsPastDue": value.past_due, "ScheduleStatus": value.schedule_status, "Schedule": value.schedule}
        content = json.dumps(timer)
    else:
        content = json.dumps(value)
    if isinstance(content, bytes) and expected is str:
        return content.decode()
    return content.encode() if isinstance(content, str) and expected is bytes else content
