"""The built-in activity behind `call_http` (source: TaskHttpActivityShim of the Durable extension)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import aiohttp

from functions_emulator.durable.clock import parse_time_span

#: HttpClient.Timeout of the extension; a request can have a shorter one
_TIMEOUT_S = 240.0

#: content headers, which .NET keeps separate, so that the extension does not return them
_CONTENT_HEADERS = frozenset({"allow", "expires", "last-modified"})


class HttpCallError(Exception):
    """The HTTP call could not be made, or its status is one of those to retry."""


async def call_http(request_text: str, token_of: Callable[[str], str | None]) -> str:
    """Makes the call of a `DurableHttpRequest`. Returns `{"statusCode", "headers", "content"}` as JSON text.

    A header has one value or a list of values, as the extension writes `StringValues`. `token_of` returns the bearer
    token for a resource, or `None`. Raises `HttpCallError` if the call failed, or if its status is one to retry.
    """
    request = json.loads(request_text)
    headers = _headers(request, token_of)
    limit = parse_time_span(request["timeout"]).total_seconds() if request.get("timeout") else _TIMEOUT_S
    try:
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=limit)) as session,
            session.request(
                request["method"], request["uri"], data=request.get("content"), headers=headers, max_redirects=50
            ) as response,
        ):
            content = await response.text()
    except TimeoutError:
        raise HttpCallError(f"{request['method']} {request['uri']} did not complete within {limit:g} s") from None
    except (aiohttp.ClientError, ValueError) as error:
        raise HttpCallError(f"{request.get('method')} {request.get('uri')}: {error!r}") from None
    _check_status(request, response.status)
    headers_out: dict[str, str | list[str]] = {}
    for name in response.headers:
        if name.lower() not in _CONTENT_HEADERS and not name.lower().startswith("content-"):
            values = response.headers.getall(name)
            headers_out[name] = values[0] if len(values) == 1 else list(values)
    return json.dumps({"statusCode": response.status, "headers": headers_out, "content": content})


def _headers(request: Mapping[str, Any], token_of: Callable[[str], str | None]) -> dict[str, str]:
    headers = {"User-Agent": "durable-functions-emulator"}
    for name, value in (request.get("headers") or {}).items():
        headers[name] = ",".join(value) if isinstance(value, list) else value
    kind = next((value for name, value in headers.items() if name.lower() == "content-type"), None)
    if kind is None and request.get("content") is not None:
        headers["Content-Type"] = "text/plain"
    elif kind is not None and "multipart" in kind:
        raise HttpCallError("Multipart content is not supported with CallHttpAsync.")
    source = request.get("tokenSource")
    if source is not None:
        if source.get("kind") != "AzureManagedIdentity":
            raise HttpCallError(f"The token source kind {source.get('kind')!r} is not supported.")
        token = token_of(str(source["resource"]))
        if token is None:
            raise HttpCallError(
                f"the emulator has no managed identity to get a token for {source['resource']}: "
                "set EMULATOR_IDENTITY_TOKEN to the token to send"
            )
        headers["Authorization"] = f"Bearer {token}"
    return headers


def _check_status(request: Mapping[str, Any], status: int) -> None:
    """Raises `HttpCallError` if the call has retry options and its status is one of `statusCodesToRetry`, by default
    any from 400 on.
    """
    options = {name.lower(): value for name, value in (request.get("retryOptions") or {}).items()}
    if not options:
        return
    codes = options.get("statuscodestoretry")
    if status in codes if codes else status >= 400:
        raise HttpCallError(f"Status code {status} received, retry requested.")
