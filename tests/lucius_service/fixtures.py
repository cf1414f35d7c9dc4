"""Fixtures of tests/lucius_service and tests/platform_service: blobs in Azurite and a bus with two lanes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from emulator.up import children
from lucius_service.workspace_io import Workspace
from tests.lucius_service.blob_account import BlobAccount
from tests.lucius_service.invoker import Invoker
from tests.lucius_service.step_runner import StepRunner
from tests.servicebus_emulator.process import Bus, start_bus

LANES = 2
#: short, so that the messages of a killed service become visible soon; a working service, even on a busy machine, must
#: renew its lock
DIRECTIVE_LOCK_S = 8
SERVICES = ("probe", "isolated", "killed", "wrong", "shout", "node", *children.service_names())


def bus_configuration() -> dict[str, Any]:
    """infra/bus/Config.json with two lanes, short locks, and the subscriptions of the services in these tests."""

    def subscription(name: str) -> dict[str, Any]:
        rule = {"FilterType": "Correlation", "CorrelationFilter": {"Properties": {"step_type": name.upper()}}}
        return {
            "Name": name,
            "Properties": {"LockDuration": f"PT{DIRECTIVE_LOCK_S}S", "MaxDeliveryCount": 10},
            "Rules": [{"Name": "$Default", "Properties": rule}],
        }

    topics = [
        {
            "Name": f"global-bus-p{lane}",
            "Properties": {"RequiresDuplicateDetection": True},
            "Subscriptions": [subscription(name) for name in SERVICES],
        }
        for lane in range(LANES)
    ]
    topics += [
        {"Name": f"global-bus-replies-p{lane}", "Properties": {}, "Subscriptions": [{"Name": "lucius-invoker"}]}
        for lane in range(LANES)
    ]
    return {"UserConfig": {"Namespaces": [{"Name": "sbemulatorns", "Queues": [], "Topics": topics}]}}


@pytest.fixture(scope="session")
def account(azurite: str) -> Iterator[BlobAccount]:
    account = BlobAccount(azurite)
    yield account
    account.close()


@pytest.fixture(scope="session")
def workspace(account: BlobAccount) -> Iterator[Workspace]:
    workspace = Workspace(account.connection, max_input_bytes=2**20)
    yield workspace
    workspace.close()


@pytest.fixture(scope="session")
def runner(account: BlobAccount, workspace: Workspace) -> StepRunner:
    return StepRunner(account, workspace)


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
def environment(bus: Bus, account: BlobAccount) -> dict[str, str]:
    """The settings of every service in these tests."""
    return {
        "LUCIUS_SERVICEBUS_CONNECTION": bus.connection_string,
        "LUCIUS_BLOB_CONNECTION": account.connection,
        "LUCIUS_SERVICEBUS_LANES": str(LANES),
        "LUCIUS_SERVICE_HEARTBEAT_SECONDS": "0.4",
    }


@pytest.fixture(scope="session")
def invoker(bus: Bus, account: BlobAccount) -> Iterator[Invoker]:
    invoker = Invoker(bus.connection_string, account)
    yield invoker
    invoker.close()
