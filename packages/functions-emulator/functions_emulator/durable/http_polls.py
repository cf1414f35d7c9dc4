"""The polling of an HTTP call that was answered with 202, as the extension does it for who asks for it.

Source: DurableOrchestrationContext.CallHttpAsync. SDK 1.7 for Python does not ask (its requests carry no
`asynchronousPatternEnabled`; durable-python issue 380), so on Azure too its `call_http` gives the 202.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

#: `extensions.durableTask.httpSettings.defaultAsyncRequestSleepTimeMilliseconds` where host.json names none.
DEFAULT_POLL_INTERVAL = timedelta(seconds=30)

_ACCEPTED = 202


def next_poll(
    request: Mapping[str, Any], response_text: str, interval: timedelta
) -> tuple[Mapping[str, Any], timedelta] | None:
    """The request to make next and how long to wait before it; `None`: this answer is the last."""
    response = json.loads(response_text)
    headers = {name.lower(): value for name, value in response["headers"].items()}
    location = headers.get("location")
    if response["statusCode"] != _ACCEPTED or not isinstance(location, str):
        return None
    wait = interval
    if str(headers.get("retry-after", "")).isdigit():
        wait = timedelta(seconds=int(headers["retry-after"]))
    # The key of the first call opens a function, and the status is somebody else's.
    kept = {name: value for name, value in (request.get("headers") or {}).items() if name.lower() != "x-functions-key"}
    poll = {"method": "GET", "uri": location, "headers": kept}
    for name in ("tokenSource", "timeout"):
        if request.get(name) is not None:
            poll[name] = request[name]
    return poll, wait
