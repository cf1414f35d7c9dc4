"""What a service that is stopped, killed or cut off owes, over the real bus and real storage."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from tests.lucius_service.invoker import Invoker
from tests.lucius_service.service_process import PROBE, Service, running
from tests.servicebus_emulator.process import start_bus

Probe = Callable[..., AbstractContextManager[Service]]


def test_a_killed_service_loses_nothing(probe: Probe, invoker: Invoker) -> None:
    """Killed at work, the next one gets the directive again once its lock ends, and there is one RESULT."""
    directive = invoker.directive(payload={"work_s": 2})
    with probe() as service:
        invoker.send(directive)
        invoker.wait(lambda: invoker.runs(directive) == 1, "the first run")
        service.kill()
    with probe() as service:
        result = invoker.result(directive["jobId"])
        invoker.wait(lambda: not invoker.left(directive), "completion")
        assert service.stop() == 0
    assert result["status"] == "SUCCEEDED"
    assert len(invoker.replies(directive["jobId"], "RESULT")) == 1
    assert invoker.runs(directive) == 2


def test_a_result_outlives_the_service(probe: Probe, invoker: Invoker) -> None:
    """A duplicate that meets another process is answered with the RESULT that the first one kept."""
    directive = invoker.directive()
    with probe() as service:
        invoker.send(directive)
        first = invoker.result(directive["jobId"])
        assert service.stop() == 0
    with probe():
        invoker.send(directive)
        assert first == invoker.result(directive["jobId"], 2)
    assert invoker.runs(directive) == 1


def test_a_stopped_service_ends_its_work_and_gives_back_the_rest(probe: Probe, invoker: Invoker) -> None:
    """SIGTERM: what runs gets its RESULT, what waits goes back to the bus at once, and the exit code is 0."""
    at_work, waiting = invoker.directive(payload={"work_s": 2}), invoker.directive()
    with probe() as service:
        invoker.send(at_work)
        invoker.wait(lambda: invoker.runs(at_work) == 1, "the run")
        invoker.send(waiting)
        invoker.wait(lambda: bool(invoker.replies(waiting["jobId"], "ACK")), "ACK of what waits")
        assert service.stop() == 0
    assert invoker.result(at_work["jobId"])["status"] == "SUCCEEDED"
    assert invoker.replies(waiting["jobId"], "RESULT") == []
    assert (invoker.left(at_work), invoker.left(waiting)) == (0, 1)
    with probe():
        assert invoker.result(waiting["jobId"])["status"] == "SUCCEEDED"
    assert (invoker.runs(at_work), invoker.runs(waiting)) == (1, 1)


def test_work_longer_than_the_lock_keeps_its_message(probe: Probe, invoker: Invoker) -> None:
    """The lock is renewed while the work goes on: the message is delivered once, so that nobody else takes it."""
    directive = invoker.directive(payload={"work_s": 4.5})
    with probe():
        invoker.send(directive)
        invoker.result(directive["jobId"])
        invoker.wait(lambda: not invoker.left(directive), "completion")
    assert len(invoker.replies(directive["jobId"], "ACK")) == 1
    assert invoker.runs(directive) == 1


def test_a_full_queue_takes_no_more(probe: Probe, invoker: Invoker) -> None:
    """What exceeds the queue is left on the bus for other replicas, unacknowledged, and comes when there is room."""
    directives = [invoker.directive(payload={"work_s": 0.8}) for _ in range(5)]
    with probe(LUCIUS_SERVICE_QUEUE_SIZE="1", LUCIUS_SERVICE_LANES="0"):
        for directive in directives:
            invoker.send(directive)
        invoker.result(directives[0]["jobId"])
        assert sum(bool(invoker.replies(each["jobId"], "ACK")) for each in directives) < 5
        for directive in directives:
            assert invoker.result(directive["jobId"])["status"] == "SUCCEEDED"
    assert [invoker.runs(directive) for directive in directives] == [1] * 5


def test_a_service_finds_its_way_back_to_the_bus(
    tmp_path: Path, bus_config: Path, environment: dict[str, str], blob_connection: str
) -> None:
    """The bus goes away in the middle of the work and comes back: the RESULT is published then, and new work taken."""
    data = tmp_path / "bus"
    data.mkdir()
    bus = start_bus("--config", bus_config, "--data", data)
    settings = {**environment, "LUCIUS_SERVICEBUS_CONNECTION": bus.connection_string}
    invoker = Invoker(bus.connection_string, blob_connection)
    try:
        with running(PROBE, tmp_path / "probe.log", settings):
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
