"""Polling after a 202 response of an HTTP call, for requests with `asynchronousPatternEnabled`.

Source: DurableOrchestrationContext.CallHttpAsync of the extension. SDK 1.7 for Python does not send that field
(azure-functions-durable-python issue 380), so on Azure too its `call_http` returns the 202.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

#: `extensions.durableTask.httpSettings.defaultAsyncRequestSleepTimeMilliseconds` if host.json has none
DEFAULT_POLL_INTERVAL = timedelta(seconds=30)

_ACCEPTED = 202


def next_poll(
    request: Mapping[str, Any], response_text: str, interval: timedelta
) -> tuple[Mapping[str, Any], timedelta] | None:
    """Returns the next request and the wait before it, or `None` if this response is the last one."""
    response = json.loads(response_text)
    headers = {name.lower(): value for name, value in response["headers"].items()}
    location = headers.get("location")
    if response["statusCode"] != _ACCEPTED or not isinstance(location, str):
        return None
    wait = interval
    if str(headers.get("retry-after", "")).isdigit():
        wait = timedelta(seconds=int(headers["retry-after"]))
    # The key is for the function of the first call; `Location` may be another server.
    kept = {name: value for name, value in (request.get("headers") or {}).items() if name.lower() != "x-functions-key"}
    poll = {"method": "GET", "uri": location, "headers": kept}
    for name in ("tokenSource", "timeout"):
        if request.get(name) is not None:
            poll[name] = request[name]
    return poll, wait
