"""Azurite and a bus with two lanes for this folder, as processes, once a session."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from lucius_service.workspace_io import Workspace
from platform_service.embedding.step import EmbeddingStep
from platform_service.ocr.step import OcrStep
from platform_service.sis.step import SisStep
from tests.azurite import running_azurite
from tests.lucius_service.invoker import Invoker
from tests.lucius_service.service_process import PROBE, Service, running
from tests.lucius_service.step_runner import StepRunner
from tests.servicebus_emulator.process import Bus, start_bus

LANES = 2
#: short, so that what a killed service held comes back soon; a service at work has to renew it
DIRECTIVE_LOCK = "PT3S"


def bus_configuration() -> dict[str, Any]:
    """As infra/bus/Config.json has it, but for the number of lanes, the lock, and a subscription for the probe."""

    def subscription(name: str) -> dict[str, Any]:
        rule = {"FilterType": "Correlation", "CorrelationFilter": {"Properties": {"step_type": name.upper()}}}
        return {
            "Name": name,
            "Properties": {"LockDuration": DIRECTIVE_LOCK, "MaxDeliveryCount": 10},
            "Rules": [{"Name": "$Default", "Properties": rule}],
        }

    topics = [
        {
            "Name": f"global-bus-p{lane}",
            "Properties": {"RequiresDuplicateDetection": True},
            "Subscriptions": [subscription(name) for name in ("probe", "ocr", "embedding", "sis")],
        }
        for lane in range(LANES)
    ]
    topics += [
        {"Name": f"global-bus-replies-p{lane}", "Properties": {}, "Subscriptions": [{"Name": "lucius-invoker"}]}
        for lane in range(LANES)
    ]
    return {"UserConfig": {"Namespaces": [{"Name": "sbemulatorns", "Queues": [], "Topics": topics}]}}


@pytest.fixture(scope="session")
def blob_connection(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_azurite(tmp_path_factory.mktemp("azurite")) as connection:
        yield connection


@pytest.fixture(scope="session")
def bus_config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("services-bus") / "Config.json"
    path.write_text(json.dumps(bus_configuration()))
    return path


@pytest.fixture(scope="session")
def bus(bus_config: Path) -> Iterator[Bus]:
    bus = start_bus("--config", bus_config)
    yield bus
    bus.stop()


@pytest.fixture(scope="session")
def environment(bus: Bus, blob_connection: str) -> dict[str, str]:
    """Of every service in these tests."""
    return {
        "LUCIUS_SERVICEBUS_CONNECTION": bus.connection_string,
        "LUCIUS_BLOB_CONNECTION": blob_connection,
        "LUCIUS_SERVICEBUS_LANES": str(LANES),
        "LUCIUS_SERVICE_HEARTBEAT_SECONDS": "0.4",
    }


@pytest.fixture(scope="session")
def invoker(bus: Bus, blob_connection: str) -> Iterator[Invoker]:
    invoker = Invoker(bus.connection_string, blob_connection)
    yield invoker
    invoker.close()


@pytest.fixture
def probe(tmp_path: Path, environment: dict[str, str]) -> Callable[..., AbstractContextManager[Service]]:
    """Starts a probe service with further settings."""

    def start(**settings: str) -> AbstractContextManager[Service]:
        return running(PROBE, tmp_path / "probe.log", {**environment, **settings})

    return start


@pytest.fixture(scope="module")
def shared_probe(tmp_path_factory: pytest.TempPathFactory, environment: dict[str, str]) -> Iterator[Service]:
    """A probe service that the tests of a module share."""
    with running(PROBE, tmp_path_factory.mktemp("probe") / "probe.log", environment) as service:
        yield service
        assert service.stop() == 0


@pytest.fixture(scope="session")
def runner(invoker: Invoker, blob_connection: str) -> Iterator[StepRunner]:
    workspace = Workspace(blob_connection, max_input_bytes=2**20)
    yield StepRunner(invoker, workspace)
    workspace.close()


@pytest.fixture(scope="session")
def ocr() -> OcrStep:
    step = OcrStep()
    step.prepare()
    return step


@pytest.fixture(scope="session")
def embedding() -> EmbeddingStep:
    step = EmbeddingStep()
    step.prepare()
    return step


@pytest.fixture(scope="session")
def sis() -> SisStep:
    step = SisStep()
    step.prepare()
    return step
