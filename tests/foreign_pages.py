"""Requests of a browser to this machine for a web page, over a real socket."""

from __future__ import annotations

from http.client import HTTPConnection
from urllib.parse import urlsplit

UPGRADE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    "Sec-WebSocket-Protocol": "amqp",
}
EVIL = "https://evil.example"


def foreign_headers(url: str) -> list[dict[str, str]]:
    """Returns headers of a page of another site, of one without an origin, and of one after DNS rebinding."""
    parts = urlsplit(url)
    rebound = f"evil.example:{parts.port}"
    return [
        {"Origin": EVIL},
        {"Origin": "null"},
        {"Origin": f"http://localhost:{(parts.port or 80) + 1}"},
        {"Host": rebound},
        {"Host": rebound, "Origin": f"http://{rebound}"},
        {"Host": f"127.0.0.1.evil.example:{parts.port}"},
        {"Host": f"localhost.evil.example:{parts.port}"},
    ]


def own_headers(url: str) -> list[dict[str, str]]:
    """Of a program, and of the program's own pages under each name of this machine."""
    port = urlsplit(url).port
    hosts = [f"{name}:{port}" for name in ("127.0.0.1", "localhost", "LOCALHOST", "[::1]")]
    return [{"Host": host} for host in hosts] + [{"Host": host, "Origin": f"http://{host}"} for host in hosts]


def send(url: str, method: str, path: str, headers: dict[str, str], body: bytes = b"") -> tuple[int, str]:
    """The status and text of the response; of a WebSocket that was opened, 101 and no text."""
    parts = urlsplit(url)
    connection = HTTPConnection(str(parts.hostname), parts.port, timeout=30)
    try:
        connection.putrequest(method, path, skip_host="Host" in headers)
        for name, value in headers.items():
            connection.putheader(name, value)
        if method == "POST":
            connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body)
        response = connection.getresponse()
        return response.status, "" if response.status == 101 else response.read().decode()
    finally:
        connection.close()
