"""`lucius service load`, and faults in a service that a seed decides."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from lucius_client.cli.main import app
from lucius_service.errors import FailedRetry
from lucius_service.load import percentiles, read_mix
from lucius_service.step import Outcome, Task
from lucius_service.testing import Chaos, run_step
from tests.lucius_service.blob_account import BlobAccount
from tests.servicebus_emulator.process import Bus


def load(*words: str, step_type: str | None = "PROBE") -> tuple[int, str, str]:
    chosen = ["--step-type", step_type] if step_type else []
    done = CliRunner().invoke(app, ["service", "load", *chosen, *words])
    return done.exit_code, done.stdout, done.stderr


def test_a_mix_is_driven_and_measured(tmp_path: Path, quiet_probe: Bus, account: BlobAccount) -> None:
    """Every directive has a RESULT, by its status, and latencies are ordered; without a service all are lost."""
    for name, payload in (("good", {}), ("bad", {"then": "final"})):
        sample = {"input_ref": {"uri": account.uri("documents", "none")}, "payload": payload}
        (tmp_path / f"{name}.json").write_text(json.dumps(sample))
    places = ("--bus", quiet_probe.connection_string, "--blob", account.connection, "-o", "json")
    mix = ("--mix", f"{tmp_path}/good.json=3", "--mix", f"{tmp_path}/bad.json=1", "--rate", "200")
    code, out, _ = load(*places, *mix, "--count", "20")
    measured = json.loads(out)
    assert (code, measured["sent"], measured["lost"]) == (0, 20, 0)
    assert sum(measured["outcomes"].values()) == 20
    assert set(measured["outcomes"]) == {"SUCCEEDED", "FAILED_FINAL PROBE_FINAL"}
    assert list(measured["result_s"].values()) == sorted(measured["result_s"].values())
    assert measured["ack_s"]["50"] <= measured["result_s"]["50"]
    nobody = ("--step-type", "ISOLATED", "--count", "2", "--wait", "0.1")
    code, out, _ = load(*places, *mix, *nobody)
    assert (code, json.loads(out)["lost"]) == (1, 2)


def test_percentiles_are_values_that_were_measured() -> None:
    """The nearest rank, never a value between two."""
    assert percentiles([]) == {}
    assert percentiles([3.0]) == dict.fromkeys((50, 90, 95, 99, 100), 3.0)
    assert percentiles([float(number) for number in range(100, 0, -1)]) == {50: 50, 90: 90, 95: 95, 99: 99, 100: 100}


@pytest.mark.parametrize("text", ["a=", "a=x", "a=0", "a=-1", "a=inf", "a=nan"])
def test_a_share_is_a_number(text: str) -> None:
    with pytest.raises(ValueError, match="a="):
        read_mix(text)
    assert load("--bus", "b", "--blob", "b", "--mix", text)[0] == 2


def test_another_output_format_is_refused() -> None:
    """Before a directive is sent."""
    code, _, err = load("--bus", "b", "--blob", "b", "--mix", "a=1", "-o", "junit")
    assert (code, err) == (2, "lucius service: -o junit: must be table or json\n")


class Steady:
    step_type = "STEADY"
    isolation = "process"

    def __init__(self) -> None:
        self.works = 0

    def prepare(self) -> None: ...

    def validate(self, payload: Any) -> Any:
        return payload

    def execute(self, task: Task) -> Outcome:
        self.works += 1
        return Outcome(task.write("out", b"x", "text/plain"))


def test_chaos_is_what_its_seed_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same seed injects the same fault into the n-th work, the log has each fault, and the step's limits hold."""
    killed: list[int] = []
    monkeypatch.setattr("os.kill", lambda _, number: killed.append(number))

    def run(seed: int) -> tuple[list[str], Steady]:
        steady = Steady()
        chaos, lines = Chaos(steady, seed, longest_delay_s=0.001), []
        for _ in range(60):
            try:
                lines += run_step(chaos, b"").lines
            except FailedRetry as fault:
                lines.append(f"{fault.message}: fail")
        return lines, steady

    lines, steady = run(3)
    assert lines == run(3)[0]
    assert lines != run(4)[0]
    faults = [line.rpartition(" ")[2] for line in lines]
    assert set(faults) == {"none", "delay", "fail", "duplicate", "crash"}
    assert steady.works == 60 - faults.count("fail") + faults.count("duplicate")
    assert killed.count(signal.SIGKILL) >= faults.count("crash")
    assert Chaos(Steady(), 1).isolation == "process"
