"""Treats a request as Kestrel, the web server of Microsoft's host, does before the host gets the request.

Limits the request line and the headers, refuses a request with a bare status, and decodes the path.

Source: dotnet/aspnetcore. The files in src/Servers/Kestrel/Core/src are KestrelServerLimits.cs,
KestrelBadHttpRequestException.cs, Internal/Http/Http1Connection.cs and Internal/Http/PathNormalizer.cs. The decoder is
src/Shared/UrlDecoder/UrlDecoder.cs.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import quote, urlsplit

from aiohttp import HttpVersion10, HttpVersion11, web
from aiohttp.http_exceptions import HttpProcessingError, LineTooLong

#: maximum bytes of the request line with its end, and of all headers; maximum count of headers
_MAX_REQUEST_LINE = 8 * 1024
_MAX_HEADERS = 32 * 1024
_MAX_HEADER_COUNT = 100

#: maximum request body, as on Azure (FUNCTIONS_REQUEST_BODY_SIZE_LIMIT)
MAX_BODY = 100 * 1024 * 1024

#: phrases that differ from Python's (src/Http/WebUtilities/src/ReasonPhrases.cs of dotnet/aspnetcore)
_REASONS = {414: "URI Too Long"}

_ESCAPES = re.compile(r"(?:%[0-9A-Fa-f]{2})+")
_LONE_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")
_METHOD = re.compile(rb"[\r\n]*(?:get|head|post|put|patch|delete|options|trace)(?= [/*h])", re.IGNORECASE)


class RefusedError(Exception):
    """A request that Kestrel refuses with the bare status `status`."""

    def __init__(self, status: int) -> None:
        self.status = status
        super().__init__(str(status))


class KestrelServer(web.Server):
    """An aiohttp server with Kestrel's limits. The server does not decompress request bodies."""

    def __init__(self, handler: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]) -> None:
        super().__init__(handler, request_factory=_make_request)

    def __call__(self) -> web.RequestHandler:
        return _Connection(
            self,
            loop=asyncio.get_running_loop(),
            access_log=None,  # type: ignore[arg-type]  # aiohttp's own value for "no log"
            auto_decompress=False,
            # Longer ones are refused while they are read, others in `path_of`.
            max_line_size=_MAX_REQUEST_LINE,
            max_field_size=_MAX_HEADERS,
            max_headers=_MAX_HEADERS,
        )


class _Connection(web.RequestHandler):
    _within_head = False

    def data_received(self, data: bytes) -> None:
        """Changes the method to upper case. Kestrel accepts a method in any case, and routes ignore case. aiohttp
        refuses lower case.
        """
        idle = self._waiter is not None and not self._waiter.done()
        if idle and not self._within_head and (method := _METHOD.match(data)):
            data = method[0].upper() + data[method.end() :]
        super().data_received(data)
        self._within_head = idle and self._waiter is not None and not self._waiter.done()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        if not isinstance(exc, HttpProcessingError):
            return super().handle_error(request, status, exc, message)
        if isinstance(exc, LineTooLong):
            status = 414 if exc.args[1] == _MAX_REQUEST_LINE else 431
        # aiohttp gives a request that it could not parse the version 1.0; Kestrel answers with 1.1
        request._version = HttpVersion11
        return refused(status)


def refused(status: int) -> web.Response:
    """Returns a response without a body. The server closes the connection after this response."""
    response = web.Response(status=status, reason=_REASONS.get(status))
    response.force_close()
    return response


def path_of(request: web.BaseRequest) -> str:
    """Returns the path, decoded. Keeps `%2F` and bytes that are not UTF-8. Then removes dot segments.

    Raises `RefusedError` if Kestrel refuses the request.
    """
    _check_head(request)
    target = request.raw_path
    path = target.partition("?")[0] if target.startswith("/") else urlsplit(target).path
    return _without_dot_segments(_ESCAPES.sub(_decoded, path))


def uri_path(path: str) -> str:
    """Returns the form of a decoded path in a URL (PathString.ToUriComponent of Microsoft.AspNetCore.Http)."""
    return quote(_LONE_PERCENT.sub("%25", path), safe="/!$&'()*+,;=:@%")


def _check_head(request: web.BaseRequest) -> None:
    target, headers = request.raw_path, request.raw_headers
    if len(f"{request.method} {target} HTTP/1.1\r\n") > _MAX_REQUEST_LINE:
        raise RefusedError(414)
    if not target.isascii() or request.version < HttpVersion10:
        raise RefusedError(400)
    if len(headers) > _MAX_HEADER_COUNT or sum(len(name) + len(value) + 4 for name, value in headers) > _MAX_HEADERS:
        raise RefusedError(431)
    try:
        for _, value in headers:
            value.decode()
    except UnicodeDecodeError:
        raise RefusedError(400) from None
    hosts = len(request.headers.getall("Host", ()))
    if hosts > 1 or (hosts == 0 and request.version >= HttpVersion11):
        raise RefusedError(400)


def _decoded(escapes: re.Match[str]) -> str:
    """Returns characters for a run of escapes; a byte that is not UTF-8 stays as it is."""
    run = escapes[0]
    text, at = "", 0
    for character in bytes.fromhex(run.replace("%", "")).decode(errors="surrogateescape"):
        if character == "\x00":
            raise RefusedError(400)
        size = len(character.encode(errors="surrogateescape"))
        stays = character == "/" or "\udc80" <= character <= "\udcff"
        text += run[3 * at : 3 * (at + size)] if stays else character
        at += size
    return text


def _without_dot_segments(path: str) -> str:
    """Removes dot segments (RFC 3986 5.2.4)."""
    if "/." not in path:
        return path
    kept: list[str] = []
    segments = path.split("/")[1:]
    for segment in segments:
        if segment == "..":
            del kept[-1:]
        elif segment != ".":
            kept.append(segment)
    if segments[-1] in (".", ".."):
        kept.append("")
    return "/" + "/".join(kept)


def _make_request(message: Any, payload: Any, protocol: Any, writer: Any, task: Any) -> web.BaseRequest:
    loop = asyncio.get_running_loop()
    return web.BaseRequest(message, payload, protocol, writer, task, loop, client_max_size=MAX_BODY)
