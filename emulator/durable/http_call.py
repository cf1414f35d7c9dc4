"""The built-in activity behind `call_http`."""

from __future__ import annotations

import json

import aiohttp

#: The default of `extensions.durableTask.httpSettings`; a call that takes longer fails the activity.
_TIMEOUT_S = 100.0


class HttpCallError(Exception):
    """the HTTP call could not be made"""


async def call_http(request_text: str) -> str:
    """Makes the call of a `DurableHttpRequest`; gives `{"statusCode", "headers", "content"}` as JSON text.

    Headers have one value or a list of them, as the extension writes `StringValues`.
    """
    request = json.loads(request_text)
    if request.get("tokenSource"):
        raise HttpCallError("tokenSource needs a managed identity, which there is none of here")
    timeout = aiohttp.ClientTimeout(total=_TIMEOUT_S)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.request(
                request["method"],
                request["uri"],
                data=request.get("content"),
                headers=request.get("headers"),
                allow_redirects=False,
            ) as response,
        ):
            content = await response.text()
            headers: dict[str, str | list[str]] = {}
            for name in response.headers:
                values = response.headers.getall(name)
                headers[name] = values[0] if len(values) == 1 else list(values)
            return json.dumps({"statusCode": response.status, "headers": headers, "content": content})
    except (TimeoutError, aiohttp.ClientError, KeyError) as error:
        raise HttpCallError(f"{request.get('method')} {request.get('uri')}: {error!r}") from None
