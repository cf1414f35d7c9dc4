"""The commands of docs/contributing/benchmarks.md, in their smallest form."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.jobs import __main__ as jobs
from benchmarks.peers import __main__ as peers
from tests.running_stack import ROOT
from tests.waiting import is_gone, wait_until

PARTS = {"counts", "floor", "latency", "backlog", "growth", "hosts", "events", "gates", "dashboard"}


def run(*words: str, timeout_s: float = 900) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=timeout_s, check=False)


def test_what_there_is_to_say(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """`--help` names the parts and systems; an unknown one is refused before anything starts."""

    def shown_by(main: Callable[[], None], word: str) -> tuple[object, str]:
        monkeypatch.setattr(sys, "argv", ["a benchmark", word])
        with pytest.raises(SystemExit) as ended:
            main()
        written = capsys.readouterr()
        return ended.value.code, written.out + written.err

    code, text = shown_by(jobs.main, "--help")
    assert (code, [part for part in PARTS if part not in text]) == (0, [])
    for main, word, refusal in (
        (jobs.main, "latencies", "unknown part: latencies"),
        (peers.main, "Temporal", "unknown system: Temporal"),
    ):
        code, text = shown_by(main, word)
        assert (code, refusal in text) == (2, True)


@pytest.mark.long
def test_every_part_reports(tmp_path: Path) -> None:
    """Each part prints its table and writes its figures; counts are those of the design even in a small run."""
    done = run("benchmarks.jobs", "--quick", "--json", str(tmp_path / "figures.json"))
    assert done.returncode == 0, done.stderr
    assert "times the CPU of its floor" in done.stdout
    parts = json.loads((tmp_path / "figures.json").read_text())
    assert parts.keys() == PARTS
    of_three = parts["counts"]["figures"]["jobs"][-1]
    assert 0 < of_three["app_cpu_ms_per_job"] < of_three["cpu_ms_per_job"]["host"]
    three = of_three["per_job"]
    assert (three["table writes"], three["table reads"], three["directives"], three["replies"]) == (10, 0, 3, 6)
    assert parts["backlog"]["figures"]["failed"] == 0
    [two] = parts["hosts"]["figures"]["rows"]
    assert two["processes"] == 2
    assert two["table transactions"] >= 10
    assert parts["events"]["figures"]["age_ms"]["p50"] > 0
    assert parts["dashboard"]["figures"]["views"]["overview"]["files"] > 10
    rates = parts["gates"]["figures"]["rows"]
    assert len(rates) == 2 * 2 * 4  # stores, processes, loads
    assert {(row["late"], row["again"]) for row in rates} == {(0, 0)}
    assert all(row["per_s"] > 0 < row["max_over_p50"] for row in rates)
    delays = parts["latency"]["figures"]
    assert {len(each[name]) for each in delays.values() for name in each if name.endswith("_ms")} == {3}


@pytest.mark.long
@pytest.mark.parametrize(
    ("worker", "part", "more"), [("local", "peers", set()), ("external", "external", {"minimal app"})]
)
def test_the_systems_report(tmp_path: Path, worker: str, part: str, more: set[str]) -> None:
    """LUCIUS runs; a peer runs too, or states in one line why it does not. The handwritten app has no local steps."""
    done = run("benchmarks.peers", "--quick", "--worker", worker, "--json", str(tmp_path / "figures.json"))
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "figures.json").read_text())[part]["figures"]
    left_out = {line.split()[0] for line in done.stdout.splitlines() if "is left out:" in line}
    assert found.keys() | left_out == {"LUCIUS", "DBOS", "Celery", "Restate", *more}
    assert found["LUCIUS"]["jobs_per_s"] > 0


@pytest.mark.long
def test_an_interrupted_run_leaves_nothing(tmp_path: Path) -> None:
    """SIGINT while a stack runs: exit code 130 without a stack trace, and no process of the stack is left."""
    command = [sys.executable, "-m", "benchmarks.jobs", "latency"]
    with (tmp_path / "stderr").open("w") as stderr:
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=stderr, start_new_session=True)

    def children() -> list[int]:
        listed = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
        return [int(pid) for pid in listed.split()]

    wait_until(lambda: len(children()) >= 2, "stack and services did not start")
    time.sleep(0.5)
    started = children()
    process.send_signal(signal.SIGINT)
    assert process.wait(90) == 130
    assert "Traceback" not in (tmp_path / "stderr").read_text()
    wait_until(lambda: all(map(is_gone, started)), "processes are left")
