"""Requests of a web page in a developer's browser to a bus on the same machine: all are refused."""

from __future__ import annotations

import json

import pytest

from servicebus_emulator.foreign_pages import refusal
from tests.foreign_pages import EVIL, UPGRADE, foreign_headers, own_headers, send
from tests.servicebus_emulator.process import Bus, start_bus

FAULT = json.dumps({"fault": "refuse-sends", "entity": "chain-dead-letters", "ms": 1}).encode()
WAYS = [
    ("GET", "/$servicebus/websocket", UPGRADE, b"", 101),
    ("POST", "/faults", {"Content-Type": "text/plain"}, FAULT, 200),
    ("GET", "/entities", {}, b"", 200),
    ("GET", "/plain-0?api-version=2021-05", {}, b"", 200),
]


@pytest.mark.parametrize(("method", "path", "headers", "body", "status"), WAYS, ids=[way[1] for way in WAYS])
def test_a_foreign_page_is_refused(
    bus: Bus, method: str, path: str, headers: dict[str, str], body: bytes, status: int
) -> None:
    """AMQP over WebSockets, faults, counts, management: 403 and one line; programs and the bus's own page pass."""
    for foreign in foreign_headers(bus.admin_url):
        code, text = send(bus.admin_url, method, path, headers | foreign, body)
        assert (code, text.count("\n"), "cannot use" in text or "is not served" in text) == (403, 1, True), foreign
    for own in own_headers(bus.admin_url):
        assert send(bus.admin_url, method, path, headers | own, body)[0] == status, own


def test_other_names_are_served_where_they_are_allowed() -> None:
    """`--allowed-host bus`, and the port of `--ws-port`; a page has to come from there too."""
    bus = start_bus("--queue", "q", "--ws-port", "0", "--allowed-host", "Bus")
    try:
        for url in (bus.admin_url, f"http://127.0.0.1:{bus.ws_port}"):
            for host, origin, status in (
                ("bus:5300", "http://bus:5300", 101),
                ("bus:5300", EVIL, 403),
                ("other:5300", None, 403),
            ):
                headers = UPGRADE | {"Host": host} | ({"Origin": origin} if origin else {})
                assert send(url, "GET", "/$servicebus/websocket", headers)[0] == status
    finally:
        assert bus.stop() == 0


def test_addresses_cannot_be_rebound() -> None:
    """Any IP address is fine as `Host`, also where the bus listens on all; a page of another address is not."""
    for host in ("192.168.1.5:5300", "0.0.0.0", "[fe80::1]:5300"):
        assert refusal(host, None, ()) is None
        assert refusal(host, f"http://{host}", ()) is None
    assert refusal("192.168.1.5:5300", "http://192.168.1.6:5300", ()) is not None
    assert refusal(None, None, ()) is None
    for strange in ("", "[", "::1", "1.2.3.4.5", "127.0.0.1.", "evil.example\x1b"):
        assert refusal(strange, None, ()) is not None
