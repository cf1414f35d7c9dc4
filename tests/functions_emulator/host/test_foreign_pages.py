"""Requests of a web page in a browser to a host on the same machine: all refused, unless CORS allows its site."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from functions_emulator.host.cors import refusal
from tests.foreign_pages import EVIL, foreign_headers, own_headers, send
from tests.functions_emulator.host.process import APPS, Host, start_host

WAYS = [
    ("GET", "/sync", 200),
    ("POST", "/emulator/instances/nobody/terminate", 404),
    ("POST", "/admin/functions/nowhere", 404),
    ("POST", "/runtime/webhooks/durabletask/instances/nobody/terminate", 404),
    ("GET", "/nowhere", 404),
    ("GET", "/", 200),
]


@pytest.mark.parametrize(("method", "path", "status"), WAYS, ids=[way[1] for way in WAYS])
def test_a_foreign_page_is_refused(host: Host, method: str, path: str, status: int) -> None:
    """Functions, `/admin`, the durable API, the page: 403 and one line; programs and the host's own page continue."""
    for foreign in foreign_headers(host.url):
        code, text = send(host.url, method, path, foreign)
        assert (code, text.count("\n"), "cannot use" in text or "is not allowed" in text) == (403, 1, True), foreign
    for own in own_headers(host.url):
        assert send(host.url, method, path, own)[0] == status, own


def test_other_names_and_origins_are_served_where_they_are_allowed(tmp_path: Path) -> None:
    """`--allowed-host` names a tunnel, `Host.CORS` any site; the host's own page stays its own."""
    app = tmp_path / "app"
    shutil.copytree(APPS / "tour", app)
    (app / "local.settings.json").write_text(json.dumps({"Host": {"CORS": "*"}}))
    host = start_host(app, tmp_path, "--allowed-host", "tunnel.example")
    try:
        for path, headers, status in (
            ("/sync", {"Host": "tunnel.example"}, 200),
            ("/sync", {"Host": "other.example"}, 403),
            ("/sync", {"Origin": EVIL}, 200),
            ("/emulator", {"Origin": EVIL}, 403),
            ("/emulator", {"Host": "tunnel.example", "Origin": "https://tunnel.example"}, 200),
        ):
            assert send(host.url, "GET", path, headers)[0] == status, (path, headers)
    finally:
        assert host.stop() == 0


def test_addresses_cannot_be_rebound() -> None:
    """Any IP address is fine as `Host`, also where the host listens on all; a page of another address is not."""
    for name in ("192.168.1.5:7071", "0.0.0.0", "[fe80::1]:7071"):
        assert refusal(name, None, ()) is None
        assert refusal(name, f"http://{name}", ()) is None
    assert refusal("192.168.1.5:7071", "http://192.168.1.6:7071", ()) is not None
    assert refusal(None, None, ()) is None
    for strange in ("", "[", "::1", "1.2.3.4.5", "127.0.0.1.", "evil.example\x1b"):
        assert refusal(strange, None, ()) is not None
