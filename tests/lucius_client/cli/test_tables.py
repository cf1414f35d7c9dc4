"""Tables of `lucius` in terminals of several widths, and in a pipe."""

from __future__ import annotations

import io
import re
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest import mock

import pytest
from rich.cells import cell_len
from rich.console import Console

from lucius_client.cli.events import EVENTS
from lucius_client.cli.job_tables import ARTIFACTS, JOBS
from lucius_client.cli.tables import Column, Listing, age, print_page, print_table, table_lines
from shared.apidocs.examples import by_model
from tests.lucius_client import samples
from tests.lucius_client.cli.command import run_main
from tests.lucius_client.stub_api import CannedResponse, serving

EXAMPLES = by_model()
EXAMPLES |= {
    "ReceiptSums": EXAMPLES["ReceiptSums"] | {"next": None},
    "FeedEnd": EXAMPLES["FeedPage"] | {"events": []},
}
#: each command that prints a table, with the names of the responses that it reads
TABLES: list[tuple[tuple[str, ...], tuple[str, ...]]] = [
    (("jobs",), ("JobPage",)),
    (("job", "events", "j"), ("EventPage",)),
    (("job", "receipt", "j"), ("Receipt",)),
    (("job", "dependencies", "j"), ("DependencyPage",)),
    (("deadletters",), ("DeadLetterPage",)),
    (("rejected", "list"), ("RejectedPage",)),
    (("incident", "list"), ("IncidentPage",)),
    (("quota", "list"), ("QuotaPage",)),
    (("quota", "waiting", "--tenant", "t"), ("QuotaPage", "WaitingPage")),
    (("quota", "log", "--tenant", "t"), ("QuotaPage", "QuotaLogPage")),
    (("bulk", "list", "--tenant", "t"), ("BulkPage",)),
    (("bulk", "items", "b", "--tenant", "t"), ("BulkItemPage",)),
    (("webhooks", "list", "--tenant", "t"), ("HookPage",)),
    (("webhooks", "deliveries", "w", "--tenant", "t"), ("DeliveryPage",)),
    (("webhooks", "log", "w", "--tenant", "t"), ("HookLog",)),
    (("events", "--tenant", "t"), ("FeedPage", "FeedEnd")),
    (("usage", "--tenant", "t"), ("UsageReport",)),
    (("source", "list", "--tenant", "t"), ("SourcePage",)),
    (("receipts", "--tenant", "t"), ("ReceiptSums",)),
]
IDS = re.compile(r"\b(?:job|bulk|inc_job|hook|rej)_\w+")
#: of texts that others write; ids and words of the API are not among them
FREE = {
    "tenant_id",
    "tenant",
    "request_type",
    "source",
    "reason",
    "actor",
    "description",
    "detail",
    "error_code",
    "url",
}
LONG = "\x1b[2J a\ttext\nof 中文 lines " * 4


def long(value: Any, name: str = "") -> Any:
    """Returns `value` with long free texts of several lines."""
    if isinstance(value, dict):
        return {key: long(each, key) for key, each in value.items()}
    if isinstance(value, list):
        return [long(each, name) for each in value]
    return f"{value}{LONG}" if isinstance(value, str) and name in FREE else value


def printed(words: tuple[str, ...], names: tuple[str, ...], *more: str, columns: int | None) -> list[str]:
    """Returns the lines of a command on stdout, in a terminal with this number of columns; None: in a pipe."""
    with serving(*(CannedResponse(body=long(EXAMPLES[name]), headers={"ETag": '"1"'}) for name in names)) as api:
        settings = {"COLUMNS": str(columns), "NO_COLOR": "1"} if columns else {}
        done = run_main(*words, *more, api=api.url, terminal=columns is not None, **settings)
    assert done.returncode == 0, done.stderr
    return re.sub(r"\x1b\[[0-9;]*m", "", done.stdout).removesuffix("\n").split("\n")


@pytest.mark.parametrize(("words", "names"), TABLES, ids=[" ".join(words) for words, _ in TABLES])
def test_a_row_is_a_line_that_fits_into_the_terminal(words: tuple[str, ...], names: tuple[str, ...]) -> None:
    """No cell is wrapped, no id is shortened; a terminal alone shortens or omits a cell that does not fit."""
    whole = printed(words, names, columns=None)
    assert "…" not in "".join(whole)
    heading, *rows = printed(words, names, columns=80)
    assert len(rows) == len(whole) - 1
    assert all(cell_len(line) <= 80 for line in (heading, *rows))
    assert set(IDS.findall(" ".join(rows))) <= set(IDS.findall(" ".join(whole)))
    assert [IDS.findall(line)[:1] for line in rows] == [IDS.findall(line)[:1] for line in whole[1:]]
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", "".join((*whole, *rows)))
    narrow = printed(words, names, columns=40)
    assert len(narrow) == len(whole)
    assert all(cell_len(line) <= 40 or line.split() == IDS.findall(line) for line in narrow)


def test_sums_name_the_number_of_jobs_that_they_lack() -> None:
    """On stderr, over all pages."""
    page = EXAMPLES["ReceiptSums"] | {"unreadable": 2}
    with serving(CannedResponse(body=page | {"next": "p2"}), CannedResponse(body=page)) as api:
        done = run_main("receipts", "--tenant", "t", api=api.url)
    assert (done.returncode, "not in the sums: 4 unreadable jobs" in done.stderr) == (0, True)


LISTING = Listing(
    "things",
    "id",
    (
        Column("thing", "id"),
        Column("text", "text", room=6, drop=1),
        Column("state", "state", drop=2),
        Column("made", "at", at=True),
        Column("more", "more", wide=True),
    ),
)
ID = "thing_0123456789"


def row(**changes: Any) -> dict[str, Any]:
    made = (datetime.now(UTC) - timedelta(minutes=3, seconds=1)).isoformat()
    return {"id": ID, "text": "a text of 26 characters ..", "state": "OPEN", "at": made, "more": "yes", **changes}


def drawn(*rows: dict[str, Any], width: int | None, wide: bool = False) -> list[str]:
    screen = Console(file=io.StringIO(), width=width or 10, force_terminal=True, color_system=None)
    with mock.patch.object(screen.file, "isatty", return_value=width is not None):
        print_table(screen, LISTING, rows, wide=wide)
    assert isinstance(screen.file, io.StringIO)
    return screen.file.getvalue().splitlines()


@pytest.mark.parametrize(
    ("width", "line"),
    [
        (None, f"{ID}  a text of 26 characters ..  OPEN   3m"),
        (200, f"{ID}  a text of 26 characters ..  OPEN   3m"),
        (41, f"{ID}  a text of…  OPEN   3m"),
        (37, f"{ID}  a tex…  OPEN   3m"),
        (36, f"{ID}  a text of 2…  3m"),
        (30, f"{ID}  a tex…  3m"),
        (22, f"{ID}  3m"),
        (10, f"{ID}  3m"),
    ],
)
def test_columns_are_shortened_and_then_dropped(width: int | None, line: str) -> None:
    """The column with the highest number is dropped first; required columns stay, also beyond the line's end."""
    assert drawn(row(), width=width)[1] == line


def test_wide_is_every_column_and_exact_times() -> None:
    """Also in a narrow terminal."""
    one = row()
    heading, line = drawn(one, width=20, wide=True)
    assert heading.split() == ["thing", "text", "state", "made", "more"]
    assert line.endswith(f"OPEN   {one['at']}  yes")


def test_a_cell_is_one_line_without_controls() -> None:
    """They are escaped; a missing value is a dash, and characters of two columns count twice."""
    assert drawn(row(text="a\nb\t\x1b[2J\u202e", state=None), width=None)[1] == rf"{ID}  a\nb\t\x1b[2J\u202e  -      3m"
    assert drawn(row(text="中文中文中文"), width=38)[1] == f"{ID}  中文中…  OPEN   3m"


def test_a_shortened_uri_keeps_its_end() -> None:
    """Results of one job begin alike."""
    rows = [{"stepId": "ocr", "name": "output", "uri": f"https://store/results/中文/{name}.json"} for name in "ab"]
    lines = [line.plain for line in table_lines(ARTIFACTS, rows, 32)]
    assert [line.split("  ")[-1] for line in lines] == ["uri", "…sults/中文/a.json", "…sults/中文/b.json"]
    assert all(cell_len(line) <= 32 for line in lines)


def test_a_job_that_ended_has_no_current_step() -> None:
    """The API names the last step of such a job."""
    job = {"jobId": ID, "status": "IN_PROGRESS", "current_step_id": "ocr"}
    steps = [table_lines(JOBS, [job | {"status": status}], None)[1].plain for status in ("IN_PROGRESS", "SUCCEEDED")]
    assert ["ocr" in line for line in steps] == [True, False]


@pytest.mark.parametrize(
    ("payload", "text"),
    [
        ({"change": "HELD", "gate": {"kind": "tenant/type", "name": "OCR"}}, "HELD, type OCR"),
        ({"change": "HELD", "gate": {"kind": "tenant", "name": ""}}, "HELD, tenant"),
        ({"status": "OPEN", "from": "CLOSED", "gate": {"kind": "service", "name": "ocr"}}, "OPEN, service ocr"),
        ({"status": "QUEUED"}, "QUEUED"),
        ({}, "-"),
    ],
)
def test_an_event_about_a_quota_names_the_quota(payload: dict[str, Any], text: str) -> None:
    """The subject of the event is the quota's id, which people do not know."""
    event = {"time": None, "type": "t", "subject": "s", "data": {"payload": payload}}
    assert table_lines(EVENTS, [event], None)[1].plain.endswith(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0s"), (59, "59s"), (60, "1m"), (7200, "2h"), (172_800, "2d"), (31_536_000, "1y"), (-3, "0s"), (-90, "in 1m")],
)
def test_an_age_has_one_unit(seconds: int, text: str) -> None:
    """The clock of the API may be a few seconds ahead."""
    now = datetime(2026, 1, 27, tzinfo=UTC)
    assert age(now - timedelta(seconds=seconds), now) == text


def test_a_page_leaves_out_what_is_not_there() -> None:
    screen = Console(file=io.StringIO(), width=20, color_system=None)
    print_page(screen, [("Job", ID), ("Error", None), ("Labels", ""), ("Longer label", "a\nb")])
    assert isinstance(screen.file, io.StringIO)
    assert screen.file.getvalue() == f"Job           {ID}\nLonger label  a\\nb\n"


@pytest.mark.parametrize(
    ("words", "body", "note"),
    [
        (("deadletters",), {"deadletters": [], "next": None, "partial": False}, "No dead letters.\n"),
        (("jobs",), {"jobs": [], "next": None, "partial": False}, "No jobs.\n"),
    ],
)
def test_an_empty_list_is_a_line_on_stderr(words: tuple[str, ...], body: dict[str, Any], note: str) -> None:
    """A program gets an empty list, or nothing."""
    with serving(CannedResponse(body=body)) as api:
        people, ids = run_main(*words, api=api.url), run_main(*words, "-o", "ids", api=api.url)
    assert (people.returncode, people.stdout, people.stderr) == (0, "", note)
    assert (ids.stdout, ids.stderr) == ("", "")


def test_a_state_that_this_client_does_not_know_is_an_error_of_one_line() -> None:
    """For a state of a newer API the command prints an error, and no part of the job."""
    page = samples.page("job_1")
    page["jobs"][0]["status"] = "ARCHIVED"
    with serving(CannedResponse(body=page)) as api:
        done = run_main("jobs", api=api.url)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
