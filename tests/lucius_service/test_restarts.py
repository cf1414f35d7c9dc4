"""Services that are stopped, killed or cut off lose no work, over the real bus and real storage."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from emulator.up.ports import find_free
from tests.lucius_service.blob_account import BlobAccount
from tests.lucius_service.fixtures import DIRECTIVE_LOCK_S
from tests.lucius_service.invoker import REPLY_TIMEOUT_S, Invoker
from tests.lucius_service.killed_service import PHASES
from tests.lucius_service.service_process import SharedProbe, launch, running_probe
from tests.servicebus_emulator.process import start_bus


def test_a_killed_service_loses_nothing(shared_probe: SharedProbe, invoker: Invoker, tmp_path: Path) -> None:
    """The next service gets the directive of a killed one once its lock ends, and there is one RESULT."""
    done = tmp_path / "done"
    directive = invoker.directive(payload={"until": str(done)})
    service = shared_probe.current()
    invoker.send(directive)
    invoker.wait(lambda: invoker.runs(directive) == 1, "the first run")
    service.kill()
    done.touch()
    shared_probe.current()
    result = invoker.result(directive["jobId"])
    invoker.wait(lambda: not invoker.left(directive), "completion")
    assert result["status"] == "SUCCEEDED"
    assert len(invoker.replies(directive["jobId"], "RESULT")) == 1
    assert invoker.runs(directive) == 2


def test_a_result_outlives_the_service(shared_probe: SharedProbe, invoker: Invoker) -> None:
    """A duplicate that another process receives gets the RESULT that the first process stored."""
    directive = invoker.directive()
    service = shared_probe.current()
    invoker.send(directive)
    first = invoker.result(directive["jobId"])
    assert service.stop() == 0
    shared_probe.current()
    invoker.send(directive)
    assert first == invoker.result(directive["jobId"], 2)
    assert invoker.runs(directive) == 1


def test_a_stopped_service_ends_its_work_and_gives_back_the_rest(shared_probe: SharedProbe, invoker: Invoker) -> None:
    """After SIGTERM running work sends its RESULT, waiting work returns to the bus at once; the exit code is 0.

    Over 5 s: the work takes longer than the signal does on any machine, and less than the limit of a stop.
    """
    at_work, waiting = invoker.directive(payload={"work_s": 10}), invoker.directive()
    service = shared_probe.current()
    invoker.send(at_work)
    invoker.wait(lambda: invoker.runs(at_work) == 1, "the run")
    invoker.send(waiting)
    invoker.wait(lambda: bool(invoker.replies(waiting["jobId"], "ACK")), "ACK of the waiting attempt")
    assert service.stop() == 0
    assert invoker.result(at_work["jobId"])["status"] == "SUCCEEDED"
    assert invoker.replies(waiting["jobId"], "RESULT") == []
    assert (invoker.left(at_work), invoker.left(waiting)) == (0, 1)
    shared_probe.current()
    assert invoker.result(waiting["jobId"])["status"] == "SUCCEEDED"
    assert (invoker.runs(at_work), invoker.runs(waiting)) == (1, 1)


def test_work_longer_than_the_lock_keeps_its_message(shared_probe: SharedProbe, invoker: Invoker) -> None:
    """The lock is renewed during the work: the message is delivered once, so that no other service receives it."""
    directive = invoker.directive(payload={"work_s": DIRECTIVE_LOCK_S + 2})
    shared_probe.current()
    invoker.send(directive)
    invoker.result(directive["jobId"])
    invoker.wait(lambda: not invoker.left(directive), "completion")
    assert len(invoker.replies(directive["jobId"], "ACK")) == 1
    assert invoker.runs(directive) == 1


def test_a_full_queue_takes_no_more(shared_probe: SharedProbe, invoker: Invoker, tmp_path: Path) -> None:
    """Further directives stay on the bus for other replicas, and are received when there is room."""
    done = tmp_path / "done"
    directives = [invoker.directive(payload={"until": str(done)}) for _ in range(5)]
    shared_probe.current()
    for directive in directives:
        invoker.send(directive)

    def taken() -> int:
        return sum(bool(invoker.replies(each["jobId"], "ACK")) for each in directives)

    def notes() -> set[str]:
        return {beat["note"] for each in directives for beat in invoker.replies(each["jobId"], "HEARTBEAT")}

    # one is processed and one waits, for longer than an ACK takes
    invoker.wait(lambda: taken() >= 2 and {"waiting", "half way"} <= notes(), "ACK of what the queue takes")
    assert taken() < 5
    done.touch()
    for directive in directives:
        assert invoker.result(directive["jobId"])["status"] == "SUCCEEDED"
    assert [invoker.runs(directive) for directive in directives] == [1] * 5


@pytest.mark.long
def test_sigkill_in_every_phase(
    tmp_path: Path, environment: dict[str, str], invoker: Invoker, account: BlobAccount
) -> None:
    """One directive whose service is killed in each phase of its attempt in turn ends with the RESULT of one run.

    Eight processes: each kill before the result is stored loses a run, and after that no work is repeated.
    """
    directive = invoker.directive("KILLED", {"metrics": "pid"}, final=True)
    invoker.send(directive, "KILLED")
    for phase in (*PHASES, "none"):
        service = launch(("-m", "tests.lucius_service.killed_service", phase), tmp_path / "log", environment)
        try:
            if phase != "none":
                # the service may receive the directive, and end, before its ready line
                assert service.process.wait(REPLY_TIMEOUT_S) == -signal.SIGKILL, phase
                continue
            service.wait_ready("killed")
            first = invoker.result(directive["jobId"])
            assert first == invoker.result(directive["jobId"], 2)  # the one before SIGKILL, and the stored one
            invoker.wait(lambda: not invoker.left(directive), "completion")
            assert service.stop() == 0
        finally:
            service.close()
    assert first["status"] == "SUCCEEDED"
    assert account.download(first["output_ref"]["uri"]) == b"done"
    # `worked`, `copied` and `stored` each began the work; `published` sent the RESULT that `stored` had stored
    assert invoker.runs(directive) == 3


def test_two_replicas_share_a_subscription(
    tmp_path: Path, environment: dict[str, str], shared_probe: SharedProbe, invoker: Invoker
) -> None:
    """Each attempt is worked on by one of them; a duplicate gets the same RESULT, from whichever receives it."""
    shared_probe.current()
    with running_probe(tmp_path / "second.log", {**environment, "LUCIUS_SERVICE_QUEUE_SIZE": "1"}):
        done = tmp_path / "done"
        directives = [invoker.directive(payload={"metrics": "pid", "until": str(done)}) for _ in range(8)]
        for directive in directives:
            invoker.send(directive)
        # each service receives two at most
        invoker.wait(lambda: sum(bool(invoker.replies(each["jobId"], "ACK")) for each in directives) > 2, "three ACKs")
        done.touch()
        results = [invoker.result(directive["jobId"]) for directive in directives]
        for directive in directives:
            invoker.send(directive)
        again = [invoker.result(directive["jobId"], 2) for directive in directives]
    assert results == again
    assert [invoker.runs(directive) for directive in directives] == [1] * len(directives)
    assert len({result["metrics"]["pid"] for result in results}) == 2


def test_a_service_reconnects_to_the_bus(
    tmp_path: Path, bus_config: Path, environment: dict[str, str], account: BlobAccount
) -> None:
    """If the bus stops during the work and restarts, the RESULT is published then, and new work is received."""
    data = tmp_path / "bus"
    data.mkdir()
    # below the ports of outgoing connections, so that no process takes it while the bus is stopped
    bus = start_bus("--config", bus_config, "--data", data, port=find_free())
    settings = {**environment, "LUCIUS_SERVICEBUS_CONNECTION": bus.connection_string}
    invoker = Invoker(bus.connection_string, account)
    try:
        with running_probe(tmp_path / "probe.log", settings):
            directive = invoker.directive(payload={"work_s": 1})
            invoker.send(directive)
            invoker.wait(lambda: invoker.runs(directive) == 1, "the run")
            bus.kill()
            bus = start_bus("--config", bus_config, "--data", data, port=bus.port)
            assert invoker.result(directive["jobId"])["status"] == "SUCCEEDED"
            after = invoker.directive()
            invoker.send(after, lane=1)
            assert invoker.result(after["jobId"])["status"] == "SUCCEEDED"
        assert invoker.runs(directive) == 1
    finally:
        invoker.close()
        bus.stop()
