"""Logs and artifacts of runs by both clients and the command: each byte once, with any fault of the connection."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

from lucius_client import AsyncClient, Client, Retries
from lucius_client.errors import StoreUnreachable
from tests.lucius_client import samples
from tests.lucius_client.cli.command import run_main
from tests.lucius_client.stub_api import CannedResponse, StubApi, serving

FAST_RETRIES = Retries(attempts=4, first_s=0.001)


def piece(body: bytes, after: str | None) -> CannedResponse:
    headers = {"Content-Type": "text/plain; charset=utf-8"}
    link = {"Link": f'</v1/runs/job_1/logs?after={after}>; rel="next"'} if after else {}
    return CannedResponse(body=body, headers=headers | link)


def asked(api: StubApi) -> list[str]:
    return [each.path.removeprefix("/v1/runs/job_1") for each in api.requests]


@pytest.mark.parametrize("kind", [Client, AsyncClient])
async def test_a_log_is_followed_over_a_restart(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request whose response is lost is sent again from the same position."""
    monkeypatch.setattr("lucius_client.run_calls._AFTER_NONE_S", 0)
    responses = [piece(b"on", "1.2"), CannedResponse(body=None), piece(b"", "1.2"), piece(b"e\xff", None)]
    with serving(*responses) as api:
        if kind is Client:
            with Client(api.url, retries=FAST_RETRIES) as client:
                read = b"".join(client.run_log("job_1"))
        else:
            async with AsyncClient(api.url, retries=FAST_RETRIES) as client:
                read = b"".join([each async for each in client.run_log("job_1")])
    assert read == b"one\xff"
    assert asked(api) == ["/logs?wait=20", *["/logs?after=1.2&wait=20"] * 3]


def test_without_follow_the_log_is_read_until_now() -> None:
    with serving(piece(b"one", "1.3"), piece(b"two", "1.6"), piece(b"", "1.6")) as api, Client(api.url) as client:
        assert b"".join(client.run_log("job_1", follow=False)) == b"onetwo"
    assert asked(api) == ["/logs", "/logs?after=1.3", "/logs?after=1.6"]


@pytest.mark.parametrize("kind", [Client, AsyncClient])
async def test_an_artifact_is_read_without_the_token(kind: Any) -> None:
    """The link is its own credential; an error shows nothing of it."""
    with serving(CannedResponse(body=b"content"), CannedResponse(403, b"")) as store:
        link = CannedResponse(body={"url": f"{store.url}/runs/report?sig=s3cret", "expires_at": "2026-01-27T10:00:00Z"})
        with serving(link) as api:
            out = io.BytesIO()
            if kind is Client:
                with Client(api.url, token="bearer") as client:
                    client.run_artifact("job_1", "report", out)
                    with pytest.raises(StoreUnreachable) as caught:
                        client.run_artifact("job_1", "report", out)
            else:
                async with AsyncClient(api.url, token="bearer") as client:
                    await client.run_artifact("job_1", "report", out)
                    with pytest.raises(StoreUnreachable) as caught:
                        await client.run_artifact("job_1", "report", out)
    assert out.getvalue() == b"content"
    assert "authorization" not in store.requests[0].headers
    why = "cannot read the artifact from storage (HTTP status 403); get the artifact again"
    assert str(caught.value) == f"artifact report: {why}"


def test_the_command_follows_and_reports_the_end() -> None:
    """Exit code 1 where the run failed; a pipe gets the bytes."""
    failed = CannedResponse(body=samples.job(status="FAILED_FINAL"))
    with serving(piece(b"\x1b[31mred\n", None), failed) as api:
        done = run_main("run", "logs", "job_1", "-f", "--api", api.url)
    assert (done.returncode, done.stdout) == (1, "\x1b[31mred\n")
    assert "FAILED_FINAL" in done.stderr


def test_the_command_overwrites_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "report.md").write_text("mine")
    with serving(piece(b"", None)) as api:
        done = run_main("run", "get", "job_1", "report.md", "--api", api.url)
        outside = run_main("run", "get", "job_1", "../report.md", "--api", api.url)
    assert (done.returncode, outside.returncode) == (2, 2)
    assert (tmp_path / "report.md").read_text() == "mine"
