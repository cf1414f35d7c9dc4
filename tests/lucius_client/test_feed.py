"""Following a feed by both clients: the position is kept, and nothing is lost by faults, crashes and a full server."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from lucius_client import AsyncClient, Client, CursorExpired, Retries, Unauthenticated, async_events, events
from lucius_client.exchange import Pause, Request, Response
from lucius_client.feed import Feed
from tests.lucius_client.cli.command import run_main
from tests.lucius_client.stub_api import CannedResponse, StubApi, serving

FAST_RETRIES = Retries(attempts=4, first_s=0.001)


def event(number: int, at: str = "2026-01-27T10:02:00Z") -> dict[str, Any]:
    return {
        "specversion": "1.0",
        "id": f"job_1:{number}:0",
        "source": "/lucius/test/acme",
        "type": "job.completed",
        "subject": "job_1",
        "time": at,
        "datacontenttype": "application/json",
        "tenant": "acme",
        "sequence": f"{number:020d}",
        "jobseq": number,
        "data": {"jobType": "OCR", "payload": {"status": "SUCCEEDED"}},
    }


def page(following: str, *numbers: int) -> CannedResponse:
    return CannedResponse(body={"events": [event(number) for number in numbers], "next": following})


def refused(status: int, code: str, **members: Any) -> CannedResponse:
    problem = {
        "type": "/v1/problems#X",
        "title": code,
        "status": status,
        "code": code,
        "detail": "no",
        "errors": [],
        "correlation_id": "c",
    }
    return CannedResponse(status=status, body=problem | members)


EXPIRED = refused(410, "CURSOR_EXPIRED", earliest="five")
#: ends an endless follower
STOP = refused(401, "TOKEN_INVALID")


def queries(api: StubApi) -> list[dict[str, str]]:
    return [{name: each[0] for name, each in parse_qs(urlsplit(got.path).query).items()} for got in api.requests]


@pytest.fixture(params=[Client, AsyncClient])
def read(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """All numbers by one of the clients, and the error that ended it."""

    async def all_of(url: str, **which: Any) -> tuple[list[int], Exception | None]:
        found: list[int] = []
        try:
            if request.param is Client:
                with Client(url, retries=FAST_RETRIES) as client:
                    found.extend(each.jobseq for each in events(client, **which))
            else:
                async with AsyncClient(url, retries=FAST_RETRIES) as client:
                    async for each in async_events(client, **which):  # events before an error count
                        found += [each.jobseq]
        except Exception as error:
            return found, error
        return found, None

    return all_of


async def test_to_the_end(read: Callable[..., Any]) -> None:
    """From the first event on, through a fault, until a page brings nothing new."""
    unavailable = refused(503, "DEPENDENCY_UNAVAILABLE")
    with serving(page("two", 1, 2), unavailable, page("three", 3), page("three")) as api:
        found = await read(api.url, follow=False, types=["job.completed", "job.failed"], terminal=True, label="a:b")
    assert found == ([1, 2, 3], None)
    sent = queries(api)
    assert [each["after"] for each in sent] == ["earliest", "two", "two", "three"]
    asked = {"types": "job.completed,job.failed", "terminal": "true", "label": "a:b", "limit": "100"}
    assert {name: value for name, value in sent[0].items() if name != "after"} == asked


async def test_for_ever(read: Callable[..., Any]) -> None:
    """The first answer gives a position at once; from then on the API may hold the request."""
    with serving(page("two"), page("three", 3), page("four", 4), STOP) as api:
        found, error = await read(api.url, after="latest")
    assert (found, type(error)) == ([3, 4], Unauthenticated)
    assert [(each["after"], each.get("wait")) for each in queries(api)] == [
        ("latest", None),
        ("two", "20"),
        ("three", "20"),
        ("four", "20"),
    ]


async def test_no_types_are_not_all_types(read: Callable[..., Any]) -> None:
    with serving(page("two", 1)) as api:
        for empty in ([], ""):
            found, error = await read(api.url, types=empty, follow=False)
            assert (found, type(error)) == ([], ValueError)
    assert api.requests == []


async def test_the_position_is_kept(read: Callable[..., Any], tmp_path: Path) -> None:
    """The position is that after the last page that was consumed completely; a program continues there."""
    file = tmp_path / "position"
    with serving(page("two", 1, 2), page("three", 3), STOP) as api:
        await read(api.url, cursor_file=file)
    assert (file.read_text(), os.listdir(tmp_path)) == ("three\n", ["position"])
    with serving(page("three")) as api:
        assert await read(api.url, cursor_file=file, follow=False) == ([], None)
    assert queries(api)[0]["after"] == "three"


def test_who_stops_within_a_page_gets_it_again(tmp_path: Path) -> None:
    file = tmp_path / "position"
    with serving(page("two", 1, 2), page("four", 3, 4)) as api, Client(api.url) as client:
        assert [each.jobseq for each in islice(events(client, cursor_file=file), 3)] == [1, 2, 3]
    assert file.read_text() == "two\n"


async def test_a_position_that_is_gone(read: Callable[..., Any], tmp_path: Path) -> None:
    """The error has the position to continue from, which overrides the file; the file does not change."""
    file = tmp_path / "position"
    file.write_text("two\n")
    with serving(EXPIRED) as api:
        found, error = await read(api.url, cursor_file=file)
    assert (found, type(error), error.problem.earliest, file.read_text()) == ([], CursorExpired, "five", "two\n")
    with serving(page("five")) as api:
        await read(api.url, cursor_file=file, after=error.problem.earliest, follow=False)
    assert (queries(api)[0]["after"], file.read_text()) == ("five", "five\n")


def test_an_api_without_room_is_left_alone_for_a_while() -> None:
    """An empty answer that was not held back."""
    times: Iterator[float] = iter([0.0, 1.0, 1.0, 22.0, 22.0])
    feed = Feed({"after": "two"}, FAST_RETRIES, lambda: next(times))
    body = CannedResponse(body={"events": [], "next": "two"}).body

    def answered() -> list[Any]:
        steps, flow = [], feed.next()
        step = next(flow)
        try:
            while True:
                steps.append(step)
                outcome = Response(200, {}, json.dumps(body).encode()) if isinstance(step, Request) else None
                step = flow.send(outcome)
        except StopIteration:
            return [each.seconds for each in steps if isinstance(each, Pause)]

    assert [answered(), answered()] == [[], [5.0]]


@pytest.mark.parametrize("output", ["json", "ids", "table"])
def test_the_command_follows_across_a_gap(output: str) -> None:
    with serving(page("two"), EXPIRED, page("six", 6), STOP) as api:
        completed = run_main("events", "--follow", "-o", output, api=api.url)
    assert [each["after"] for each in queries(api)] == ["latest", "two", "five", "six"]
    assert completed.returncode == 3
    assert "deleted after their retention" in completed.stderr
    [line] = completed.stdout.splitlines()
    assert "job_1" in line


def test_the_command_shows_the_change_of_a_gate() -> None:
    of_gate = event(1) | {"type": "quota.changed", "subject": "33f2dee8"}
    of_gate["data"] = {"payload": {"change": "RULE_SET"}}
    with serving(CannedResponse(body={"events": [of_gate], "next": "two"}), page("two")) as api:
        completed = run_main("events", api=api.url)
    headings, row = completed.stdout.splitlines()
    assert headings.split()[2] == "subject"
    assert row.split()[1:] == ["quota.changed", "33f2dee8", "-", "RULE_SET"]


def test_who_sees_every_tenant_reads_which_option_names_one() -> None:
    """By the option of the command, not by the parameter of the route; the setting is the option's default."""
    with serving(refused(400, "TENANT_REQUIRED"), page("two")) as api:
        completed = run_main("events", api=api.url)
        assert run_main("events", api=api.url, LUCIUS_TENANT="acme").returncode == 0
    assert (completed.returncode, "--tenant" in completed.stderr) == (3, True)
    assert queries(api)[1]["tenant_id"] == "acme"


def test_the_command_lists_what_is_kept() -> None:
    old = CannedResponse(body={"events": [event(1, "2026-01-26T10:02:00Z"), event(2)], "next": "two"})
    with serving(old, page("two")) as api:
        words = ["--type", "job.completed", "--since", "2026-01-27T00:00:00Z", "--job", "job_1", "-o", "ids"]
        completed = run_main("events", *words, api=api.url)
    assert (completed.returncode, completed.stdout) == (0, "job_1:2:0\n")
    assert queries(api)[0].items() >= {"types": "job.completed", "jobId": "job_1", "after": "earliest"}.items()


def test_a_listing_keeps_its_position_once_it_is_out(tmp_path: Path) -> None:
    """A command that ends before it wrote its rows shows them again; it reports a gap and continues after it."""
    file = tmp_path / "position"
    file.write_text("two\n")
    with serving(page("three", 3), STOP) as api:
        stopped = run_main("events", "--cursor-file", str(file), "-o", "ids", api=api.url)
    assert (stopped.returncode, stopped.stdout, file.read_text()) == (3, "", "two\n")
    with serving(EXPIRED, page("six", 6), page("six")) as api:
        completed = run_main("events", "--cursor-file", str(file), "-o", "ids", api=api.url)
    assert [each["after"] for each in queries(api)] == ["two", "five", "six"]
    assert (completed.returncode, completed.stdout, file.read_text()) == (0, "job_1:6:0\n", "six\n")
    assert "deleted after their retention" in completed.stderr


@pytest.mark.parametrize(
    ("place", "words"), [("", []), ("bytes", []), ("nowhere/position", []), ("nowhere/position", ["--follow"])]
)
def test_a_position_file_that_cannot_be_used_is_one_line(tmp_path: Path, place: str, words: list[str]) -> None:
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    file = str(tmp_path / place)
    with serving(page("two"), page("two"), STOP) as api:
        completed = run_main("events", "--cursor-file", file, *words, api=api.url)
    assert completed.returncode == 2
    # before it may be that there are no events
    line = completed.stderr.splitlines()[-1]
    assert line.startswith(f"lucius: --cursor-file {file}")


def test_an_empty_position_file_is_none(tmp_path: Path) -> None:
    """The follower begins now, and not with all retained events."""
    file = tmp_path / "position"
    file.touch()
    with serving(page("two"), STOP) as api:
        run_main("events", "--follow", "--cursor-file", str(file), api=api.url)
    assert queries(api)[0]["after"] == "latest"
