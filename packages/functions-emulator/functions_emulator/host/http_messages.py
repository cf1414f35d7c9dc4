"""Converts a request to the function's request, and the function's value to a response.

Source: azure-functions-host, src/WebJobs.Script.Grpc/MessageExtensions/GrpcMessageConversionExtensions.cs, `ToRpcHttp`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from aiohttp import web
from azure.functions import HttpResponse
from azure.functions.http import HttpRequest
from multidict import CIMultiDict

from functions_emulator.host.errors import FunctionFailedError
from functions_emulator.host.kestrel import uri_path


async def function_request(request: web.BaseRequest, path: str, route_params: Mapping[str, str]) -> HttpRequest:
    """Returns the function's request.

    Only a body with a `Content-Length` arrives. A chunked body is empty (azure-functions-host issue 7930).

    Repeated headers and parameters are joined by commas. Parameters whose names differ in case arrive under the last
    spelling, since QueryFeature.cs of dotnet/aspnetcore ignores case. A parameter without a value is omitted, since the
    Python worker does not request `UseNullableValueDictionaryForHttp`.
    """
    query = _joined(request.query.items())
    spellings = {name.lower(): name for name in request.query}
    raw_query = request.rel_url.raw_query_string
    return HttpRequest(
        method=request.method,
        url=f"{request.scheme}://{request.host}{uri_path(path)}" + (f"?{raw_query}" if raw_query else ""),
        headers=_joined(request.headers.items()),
        params={spellings[name.lower()]: value for name, value in query.items() if value},
        route_params=route_params,
        body_type="bytes",
        body=await request.read() if request.content_length else b"",
    )


def _joined(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Returns values by name, in any case. Omits empty values of a repeated name, as StringValues of .NET does."""
    values = CIMultiDict(pairs)
    names = {name.lower(): name for name in reversed(list(values))}
    return {name: ",".join(filter(None, values.getall(name))) for name in names.values()}


def function_response(name: str, value: Any) -> web.Response:
    """Returns the response for a function's value: an HttpResponse, a text, or `None` (204).

    Raises `FunctionFailedError` for other values.
    """
    if value is None:
        return web.Response(status=204)
    if isinstance(value, str):
        return web.Response(text=value)
    if not isinstance(value, HttpResponse):
        problem = TypeError(f"an HTTP function must return a str or func.HttpResponse, not {type(value).__name__}")
        raise FunctionFailedError(name, problem, str(problem))
    response = web.Response(status=value.status_code, body=value.get_body())
    for header, text in value.headers.items():
        if header.lower() not in ("content-length", "transfer-encoding"):
            response.headers.add(header, text)
    if "content-type" not in value.headers:
        charset = f"; charset={value.charset}" if value.mimetype.startswith("text/") else ""
        response.headers["Content-Type"] = f"{value.mimetype}{charset}"
    else:
        response.headers["Content-Type"] = value.headers["content-type"]
    return response
