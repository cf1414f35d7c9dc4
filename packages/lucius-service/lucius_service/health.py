"""Liveness and readiness over HTTP, for whoever runs the service (S3 13.3).

`GET /health/live`: 200 while the process serves. `GET /health/ready`: 200 when every lane is open and storage
answers, else 503; the JSON body says which.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

#: gives the dependencies by name: True where one is fine
Checks = Callable[[], Awaitable[dict[str, bool]]]

REQUEST_TIMEOUT_S = 10


async def serve_health(port: int, checks: Checks, *, host: str = "0.0.0.0") -> asyncio.Server:
    """Raises OSError where the port is taken."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            request = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), REQUEST_TIMEOUT_S)
            method, path, *_ = request.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
            status, body = await _respond(method, path, checks)
            text = json.dumps(body).encode()
            head = f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {len(text)}\r\n"
            writer.write(head.encode() + b"connection: close\r\n\r\n" + text)
            await writer.drain()
        except (TimeoutError, OSError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # whoever asked has gone or does not speak HTTP
        finally:
            writer.close()

    return await asyncio.start_server(answer, host, port)


async def _respond(method: str, path: str, checks: Checks) -> tuple[str, dict[str, Any]]:
    if method != "GET":
        return "405 Method Not Allowed", {"status": "method not allowed"}
    if path == "/health/live":
        return "200 OK", {"status": "live"}
    if path == "/health/ready":
        found = await checks()
        fine = all(found.values())
        return ("200 OK" if fine else "503 Service Unavailable"), {
            "status": "ready" if fine else "not ready",
            "checks": {name: "ok" if ok else "failing" for name, ok in found.items()},
        }
    return "404 Not Found", {"status": "not found"}
