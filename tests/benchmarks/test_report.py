"""The reports of the benchmarks about given figures."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.jobs.counts import _by_group
from benchmarks.jobs.latency import lease_ms
from benchmarks.jobs.load import Ran
from benchmarks.jobs.report import TEXTS
from benchmarks.jobs.stack import Invocation
from benchmarks.jobs.tables import percentiles, shown, text_table
from benchmarks.measured import RECORDED, measured, rounded, write
from benchmarks.peers import __main__ as peers
from benchmarks.peers import environment
from benchmarks.peers.systems import SYSTEMS


def test_percentiles_are_values_that_were_measured() -> None:
    """The smallest value that the percentage does not exceed; of one value that value, of none none."""
    assert percentiles([3.0, 1.0, 2.0, 4.0]) == {"p50": 2.0, "p95": 4.0, "p99": 4.0}
    assert percentiles(range(1, 201)) == {"p50": 100, "p95": 190, "p99": 198}
    assert (percentiles([7.0])["p99"], percentiles([])) == (7.0, {})


def test_numbers_have_three_digits() -> None:
    assert [shown(each) for each in (1234.5, 12.345, 0.01234, 0.0, 7, "x")] == [
        "1,234",
        "12.3",
        "0.0123",
        "0",
        "7",
        "x",
    ]
    assert text_table(["job", "ms"], [["one", 1.0], ["three", 30.0]]) == "job    ms\none     1\nthree  30"
    assert rounded({"a": [1.23456, {"b": 7}], 3: "x"}) == {"a": [1.235, {"b": 7}], "3": "x"}


def test_a_lease_counts_from_the_reading_to_the_end_of_its_ack_s_function() -> None:
    """Other functions, other attempts and directives without an ACK do not count."""
    directives = [("job_1", "ocr", 600, 10.0), ("job_2", "ocr", 600, 10.0), ("job_3", "ocr", 600, 10.0)]
    ran = [
        Invocation("reply_p1", "serviceBusTrigger", 10.01, 10.02, 1, "ACK/job_1/ocr/1"),
        Invocation("reply_p1", "serviceBusTrigger", 10.03, 10.04, 1, "RESULT/job_1/ocr/1"),
        Invocation("reply_p1", "serviceBusTrigger", 10.03, 10.09, 1, "ACK/job_2/ocr/2"),
        Invocation("orchestrate", "httpTrigger", 10.0, 10.5, 1, None),
    ]
    assert lease_ms(directives, ran) == [pytest.approx(20)]


def test_scheduling_counts_to_the_first_directive() -> None:
    """Those of later steps and attempts come later."""
    ran = Ran(sent={"job_1": 5.0}, answered={"job_1": 5.01})
    assert ran.scheduling_ms([("job_1", "ocr", 1, 5.03), ("job_1", "sis", 1, 5.9)]) == [pytest.approx(30)]
    assert ran.submit_ms == [pytest.approx(10)]


def test_executions_in_the_groups_of_flex() -> None:
    """HTTP and Durable are a group each, all replies are one; a batch of episodes counts as its executions."""
    ran = [
        Invocation("orchestrate", "httpTrigger", 0, 0.010, 1, None),
        Invocation("episodes", "orchestrationTrigger", 0, 0.006, 3, None),
        Invocation("dispatch", "activityTrigger", 0, 0.020, 1, None),
        Invocation("reply_p1", "serviceBusTrigger", 0, 0.004, 1, "a"),
        Invocation("reply_p15", "serviceBusTrigger", 0, 0.008, 1, "b"),
    ]
    found = _by_group(ran, jobs=2)
    assert {name: one["executions_per_job"] for name, one in found.items()} == {"durable": 2, "http": 0.5, "lanes": 1}
    assert found["lanes"]["wall_ms_per_job"] == pytest.approx(6)


def test_the_recorded_figures_have_a_text() -> None:
    """Each recorded part is printed as `make bench` prints it."""
    recorded = json.loads((RECORDED / "jobs.json").read_text())
    assert "counts" in recorded
    for part, each in recorded.items():
        assert TEXTS[part](each["figures"]).count("\n") >= 2
        assert each["machine"].count(",") >= 3
        assert each["date"] >= "2026-11-22"


def test_a_part_that_is_recorded_leaves_the_others(tmp_path: Path) -> None:
    write(tmp_path / "jobs.json", {"counts": measured({"a": 1.0})})
    write(tmp_path / "jobs.json", {"floor": measured({"b": 2.0})}, keep=True)
    assert json.loads((tmp_path / "jobs.json").read_text()).keys() == {"counts", "floor"}
    write(tmp_path / "jobs.json", {"floor": measured({})})
    assert json.loads((tmp_path / "jobs.json").read_text()).keys() == {"floor"}


def test_peers_are_compared_within_a_round() -> None:
    """A machine that is slower in one round is so for all: the ratios stay, and their spread is that of the rounds."""

    def turn(jobs_per_s: float) -> dict[str, object]:
        return {"jobs_per_s": jobs_per_s, "cpu_ms_per_job": 10.0, "job_ms": {"p50": 5.0}}

    found = peers.summary(
        {"LUCIUS": [turn(10), turn(5), turn(2)], "DBOS": [turn(40), turn(20), turn(12)], "Celery": []}
    )
    assert found["DBOS"]["times_lucius"] == [4, 4, 6]
    assert found["LUCIUS"]["times_lucius"] == [1, 1, 1]
    assert "4.00 (4.00 to 6.00)" in peers.text(found)
    assert "Celery" not in found


def test_without_lucius_there_is_no_ratio() -> None:
    found = peers.summary({"DBOS": [{"jobs_per_s": 4.0, "cpu_ms_per_job": 10.0, "job_ms": {"p50": 5.0}}]})
    assert found["DBOS"]["times_lucius"] == []
    assert math.isclose(found["DBOS"]["jobs_per_s"], 4)


@pytest.mark.parametrize(
    ("find", "command"),
    [
        (environment.redis, "redis-server"),
        (environment.restate, "npm install -g @restatedev/restate-server"),
    ],
)
def test_a_server_that_cannot_be_had(
    find: Callable[[], Path], command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing on PATH, no apt-get, no npm: one line with the command that helps."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(environment, "FOLDER", tmp_path)
    monkeypatch.setattr(environment, "_SERVERS", tmp_path / "debian")
    with pytest.raises(environment.CannotBeHad) as raised:
        find()
    assert command in str(raised.value)
    assert "\n" not in str(raised.value)


def test_each_round_begins_with_lucius() -> None:
    assert next(iter(SYSTEMS)) == "LUCIUS"
    assert set(SYSTEMS) == set(peers._JOBS)
