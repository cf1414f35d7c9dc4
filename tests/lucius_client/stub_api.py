"""A stub of the API: it sends canned responses and records requests, for faults that the real API seldom has."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.lucius_client import samples


@dataclass(frozen=True)
class CannedResponse:
    """One response. `body` None: the connection is closed without a response."""

    status: int = 200
    body: Any = field(default_factory=samples.job)
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class ReceivedRequest:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class StubApi:
    url: str
    requests: list[ReceivedRequest]


@contextmanager
def serving(*responses: CannedResponse) -> Iterator[StubApi]:
    """Sends the responses in turn; the last one repeats."""
    requests: list[ReceivedRequest] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def respond(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            requests.append(ReceivedRequest(self.command, self.path, headers, self.rfile.read(length)))
            response = responses[min(len(requests), len(responses)) - 1]
            if response.body is None:
                self.close_connection = True
                return
            content = response.body if isinstance(response.body, bytes) else json.dumps(response.body).encode()
            self.send_response(response.status)
            for name, value in response.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(0 if response.status == 304 else len(content)))
            self.end_headers()
            if response.status != 304:
                self.wfile.write(content)

        do_GET = do_POST = do_PATCH = do_DELETE = respond

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield StubApi(f"http://127.0.0.1:{server.server_address[1]}", requests)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
