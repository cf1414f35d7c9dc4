"""HTTP functions that stream, over real HTTP."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from tests.functions_emulator.host.process import SOON_S, Host, start_host


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    running = start_host("streams", tmp_path_factory.mktemp("host"))
    yield running
    assert running.stop() == 0


def test_a_response_arrives_piece_by_piece(host: Host) -> None:
    """Each piece arrives before the next one is made: the function waits for a request to /next."""
    with httpx.stream("GET", f"{host.url}/numbers/3", timeout=SOON_S, trust_env=False) as response:
        assert response.status_code == 200
        assert response.headers["content-type"].startswith("text/event-stream")
        assert response.headers["x-stream"] == "yes"
        pieces_read = []
        for piece in response.iter_text():
            pieces_read.append(piece)
            assert host.post("/next").json() == "ok"  # FastAPI sends a plain text as JSON
    assert pieces_read == [f"data: {number}\n\n" for number in range(3)]


def test_a_request_is_read_as_it_comes(host: Host) -> None:
    """A body that is sent in pieces reaches the function in pieces, and is never in memory as a whole."""
    pieces = (b"x" * 100_000 for _ in range(200))
    response = host.post("/sizes?a=1", content=pieces)
    counted = response.json()
    assert (response.status_code, counted["total"], counted["query"]) == (201, 20_000_000, {"a": "1"})
    assert counted["largest"] <= 64 * 1024


def test_sync_functions_may_stream_too(host: Host) -> None:
    """They may have `func.Context` too; a HEAD request gets the headers alone."""
    assert host.get("/sync").text == "slow sync_stream"
    head = host.request("HEAD", "/sync")
    assert (head.status_code, head.text) == (200, "")
    assert "HEAD /sync" not in host.log


def test_a_stream_that_breaks_off_is_seen_by_the_caller(host: Host) -> None:
    """The connection ends without the last piece, and the log has the reason."""
    with pytest.raises(httpx.RemoteProtocolError):
        host.get("/breaks")
    assert "GET /breaks was interrupted" in host.log


def test_a_function_that_raises_is_500(host: Host) -> None:
    """The exception is in the log, not in the response."""
    response = host.get("/raises")
    assert response.status_code == 500
    assert "secret" not in response.text
    assert "raises failed, invocation " in host.log


def test_routes_and_types_are_the_hosts(host: Host) -> None:
    """A constraint that does not match is 404; a function with `func.HttpRequest` is left out with its reason."""
    assert host.get("/numbers/many").status_code == 404
    (problem,) = host.get("/admin/emulator/problems").json()
    assert problem == "classic: the parameter 'req' of a httpTrigger cannot be a HttpRequest"
