"""HTTP in, `func.HttpRequest` to the function, `func.HttpResponse` back, and out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aiohttp import web
from azure.functions import HttpResponse
from azure.functions.http import HttpRequest

from functions_emulator.host.errors import FunctionFailedError


def make_request(request: web.BaseRequest, body: bytes, route_params: Mapping[str, str]) -> HttpRequest:
    """Repeated headers and parameters are joined by commas, as the host joins them for its workers."""
    headers = {name: ",".join(request.headers.getall(name)) for name in request.headers}
    params = {name: ",".join(request.query.getall(name)) for name in request.query}
    return HttpRequest(
        method=request.method,
        url=str(request.url),
        headers=headers,
        params=params,
        route_params=route_params,
        body_type="bytes",
        body=body,
    )


def make_response(name: str, value: Any) -> web.Response:
    """What a function may return: an HttpResponse, text, or nothing (204)."""
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
