"""A small HTTP server that answers what a test says, and keeps what it was asked: for faults that LUCIUS seldom has."""

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
class Says:
    """One answer. `body` None: the connection breaks off without one."""

    status: int = 200
    body: Any = field(default_factory=samples.job)
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class Asked:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class OwnApi:
    url: str
    asked: list[Asked]


@contextmanager
def serving(*answers: Says) -> Iterator[OwnApi]:
    """The answers in turn; the last one repeats."""
    asked: list[Asked] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            asked.append(Asked(self.command, self.path, headers, self.rfile.read(length)))
            says = answers[min(len(asked), len(answers)) - 1]
            if says.body is None:
                self.close_connection = True
                return
            content = says.body if isinstance(says.body, bytes) else json.dumps(says.body).encode()
            self.send_response(says.status)
            for name, value in says.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(0 if says.status == 304 else len(content)))
            self.end_headers()
            if says.status != 304:
                self.wfile.write(content)

        do_GET = do_POST = answer

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield OwnApi(f"http://127.0.0.1:{server.server_address[1]}", asked)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
