"""A bus for the tests of this folder, and queues that no other test uses."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.servicebus_emulator.process import Bus, start_bus

_POOL = 100
_numbers = itertools.count()


def _queue(name: str, **properties: Any) -> dict[str, Any]:
    return {"Name": name, "Properties": properties}


def _rule(name: str, **correlation: Any) -> dict[str, Any]:
    return {"Name": name, "Properties": {"FilterType": "Correlation", "CorrelationFilter": correlation}}


def _sql_rule(name: str, expression: str) -> dict[str, Any]:
    return {"Name": name, "Properties": {"FilterType": "Sql", "SqlFilter": {"SqlExpression": expression}}}


def configuration() -> dict[str, Any]:
    """A Config.json with a pool of plain queues and of each special kind."""
    queues = [_queue(f"plain-{i}") for i in range(_POOL)]
    queues += [_queue(f"twice-{i}", MaxDeliveryCount=2) for i in range(_POOL)]
    queues += [_queue(f"deduplicating-{i}", RequiresDuplicateDetection=True) for i in range(_POOL)]
    queues += [
        _queue(f"expiring-{i}", DefaultMessageTimeToLive="PT1S", DeadLetteringOnMessageExpiration=True)
        for i in range(_POOL)
    ]
    queues += [_queue(f"sessions-{i}", RequiresSession=True) for i in range(_POOL)]
    queues += [
        _queue("chain-first", ForwardTo="chain-last"),
        _queue("chain-last", ForwardDeadLetteredMessagesTo="chain-dead-letters"),
        _queue("chain-dead-letters"),
        _queue("chain-refused", ForwardTo="sessions-0"),
    ]
    topics = [
        {
            "Name": "steps",
            "Properties": {},
            "Subscriptions": [
                {"Name": "ocr", "Rules": [_rule("$Default", Properties={"step_type": "OCR"})]},
                {
                    "Name": "urgent",
                    "Rules": [_rule("a", Label="urgent"), _rule("b", Label="urgent", Properties={"step_type": "OCR"})],
                },
                {"Name": "everything"},
            ],
        }
    ]
    divided = {"Name": "by-quotient", "Rules": [_sql_rule("a", "n / zero = 1")]}
    topics.append({"Name": "divided", "Properties": {}, "Subscriptions": [divided]})
    return {"UserConfig": {"Namespaces": [{"Name": "sbemulatorns", "Queues": queues, "Topics": topics}]}}


@pytest.fixture(scope="session")
def config_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bus") / "Config.json"
    path.write_text(json.dumps(configuration()))
    return path


@pytest.fixture(scope="session")
def bus(config_path: Path) -> Iterator[Bus]:
    """One bus for the whole session, in memory."""
    bus = start_bus("--config", config_path)
    yield bus
    assert bus.stop() == 0


@pytest.fixture(scope="session")
def timed_bus(config_path: Path) -> Iterator[Bus]:
    """Yields a bus as `bus`, with a clock that tests advance, so that times do not depend on the machine's load."""
    bus = start_bus("--config", config_path, "--virtual-clock")
    yield bus
    assert bus.stop() == 0


def _fresh(kind: str) -> str:
    return f"{kind}-{next(_numbers) % _POOL}"


@pytest.fixture
def queue() -> str:
    """A queue that no other test uses, with Azure's defaults."""
    return _fresh("plain")


@pytest.fixture
def twice_queue() -> str:
    """A queue with at most two deliveries."""
    return _fresh("twice")


@pytest.fixture
def deduplicating_queue() -> str:
    """A queue with duplicate detection."""
    return _fresh("deduplicating")


@pytest.fixture
def expiring_queue() -> str:
    """Returns a queue whose messages are dead-lettered after a second."""
    return _fresh("expiring")


@pytest.fixture
def session_queue() -> str:
    """A queue that requires sessions."""
    return _fresh("sessions")


@pytest.fixture
def own_bus() -> Iterator[Bus]:
    """A bus of one test, with a clock that can be advanced and entities of at most 100,000 bytes."""
    bus = start_bus(
        "--queue", "q", "--topic", "t/a", "--topic", "t/b", "--virtual-clock", "--max-entity-bytes", "100000"
    )
    yield bus
    assert bus.stop() == 0
