"""Message faults: the messages that rules strike, the effects, and the seed that decides."""

from __future__ import annotations

from typing import Any

import pytest

from servicebus_emulator.broker.broker import Broker
from servicebus_emulator.broker.descriptions import QueueDescription
from servicebus_emulator.broker.errors import InvalidRequest, ServerBusy
from servicebus_emulator.broker.fault_desk import FaultDesk
from tests.servicebus_emulator.fakes import Receiver, StillClock, Text, advance

QUEUE = "global-bus-p3"


class Desk:
    """A broker with two queues, the second of which detects duplicates, and its desk."""

    def __init__(self) -> None:
        self.clock = StillClock()
        self.broker = Broker(self.clock)
        self.broker.add_queue(QueueDescription(QUEUE))
        self.broker.add_queue(QueueDescription("other", requires_duplicate_detection=True))
        self.desk = self.broker.desk

    def send(self, *texts: str, queue: str = QUEUE, **properties: Any) -> None:
        for text in texts:
            self.broker.destination(queue).send(Text(text, message_id=text, properties=properties))

    def received(self, queue: str = QUEUE) -> list[str]:
        """Returns the messages since the last call."""
        receiver = Receiver(credit=1000, settles_on_send=True)
        self.broker.queue(queue).request_messages(receiver)
        self.broker.queue(queue).remove_consumer(receiver)
        return receiver.texts


@pytest.mark.parametrize(
    ("rule", "at_once", "later"),
    [
        ({"fault": "drop"}, [], []),
        ({"fault": "duplicate"}, ["one!", "one!", "two!", "two!"], []),
        ({"fault": "duplicate", "count": 1}, ["one!", "one!", "two!"], []),
        ({"fault": "delay", "ms": 500, "count": 1}, ["two!"], ["one!"]),
        ({"fault": "reorder", "count": 1}, ["two!", "one!"], []),
        ({"fault": "reorder", "ms": 500}, [], ["one!", "two!"]),
        ({"fault": "truncate"}, ["on", "tw"], []),
        ({"fault": "slow"}, ["one!", "two!"], []),
        ({"fault": "disconnect"}, ["one!", "two!"], []),
    ],
)
def test_what_a_fault_does(rule: dict[str, Any], at_once: list[str], later: list[str]) -> None:
    """Each message is lost, doubled, late, out of order or cut; after its time all that is not lost is there."""
    world = Desk()
    world.desk.add(rule)
    world.send("one!", "two!")
    assert at_once == world.received()
    advance(world.broker, world.clock, 499)
    assert world.received() == []
    advance(world.broker, world.clock, 1000)
    assert later == world.received()


def test_a_busy_server_refuses() -> None:
    """The message is not there, and the same one is accepted afterwards."""
    world = Desk()
    world.desk.add({"fault": "throttle", "count": 1})
    with pytest.raises(ServerBusy):
        world.send("one")
    world.send("one")
    assert world.received() == ["one"]


def test_a_window_of_duplicate_detection_can_be_over() -> None:
    """A message id that the entity knows is accepted again."""
    world = Desk()
    world.send("one", "one", queue="other")
    world.desk.add({"fault": "forget", "count": 1})
    world.send("one", "one", queue="other")
    assert world.received("other") == ["one", "one"]


@pytest.mark.parametrize(
    ("rule", "dropped"),
    [
        ({"lane": 3}, True),
        ({"lane": 13}, False),
        ({"entity": "Global-Bus"}, True),
        ({"entity": "other"}, False),
        ({"step_type": "OCR"}, True),
        ({"step_type": "SIS"}, False),
        ({"tenant": "acme", "lane": 3}, True),
        ({"tenant": "acme", "lane": 4}, False),
    ],
)
def test_a_rule_is_narrowed(rule: dict[str, Any], dropped: bool) -> None:
    """By lane, entity, step type and tenant; all must match."""
    world = Desk()
    world.desk.add({"fault": "drop", **rule})
    world.send("one", step_type=b"OCR", tenant_id="acme")
    assert world.received() == ([] if dropped else ["one"])


def test_forwarded_and_redelivered_messages_are_left_alone() -> None:
    """A fault affects messages that a client sends, once."""
    world = Desk()
    world.broker.add_queue(QueueDescription("first", forward_to=QUEUE))
    world.desk.add({"fault": "drop", "entity": QUEUE})
    world.send("one", queue="first")
    assert world.received() == ["one"]


def test_a_seed_reproduces_its_run() -> None:
    """The same seed, rules and messages have the same faults, at any time; another seed has others."""

    def run(seed: int, pause_ms: int) -> tuple[list[str], list[dict[str, Any]]]:
        world = Desk()
        world.desk.add({"fault": "drop", "percent": 30})
        world.desk.add({"fault": "duplicate", "percent": 20.5})
        world.desk.begin(seed)
        for number in range(200):
            world.send(f"{number}", queue=QUEUE if number % 2 else "other")
            advance(world.broker, world.clock, pause_ms)
        return world.received(), world.desk.describe()["run"]

    received, strikes = run(7, 0)
    assert (received, strikes) == run(7, 13)
    assert strikes != run(8, 0)[1]
    dropped = sum(strike["fault"] == "drop" for strike in strikes)
    assert 30 <= dropped <= 90  # about 30 % of 200
    lost = {strike["message_id"] for strike in strikes if (strike["entity"], strike["fault"]) == (QUEUE, "drop")}
    assert {f"{number}" for number in range(1, 200, 2)} - set(received) == lost


def test_a_run_begins_again_by_its_seed() -> None:
    """`begin` keeps the rules and starts their counts again; `remove` ends one rule, or all and the run."""
    desk = FaultDesk()
    first, second = desk.add({"fault": "drop", "count": 1}), desk.add({"fault": "slow"})

    def judge() -> set[str]:
        return set(desk.judge(QUEUE, Text("x")).faults)

    assert [judge(), judge()] == [{"drop", "slow"}, {"slow"}]
    desk.begin(5)
    assert judge() == {"drop", "slow"}
    assert (desk.remove(first.id), desk.remove(first.id)) == (1, 0)
    assert [rule["id"] for rule in desk.describe()["rules"]] == [second.id]
    assert (desk.remove(), desk.describe()) == (1, {"seed": 5, "rules": [], "run": []})


@pytest.mark.parametrize(
    ("rule", "named"),
    [
        ([], "JSON object"),
        ({}, "fault must be one of"),
        ({"fault": "fire"}, "fault must be one of"),
        ({"fault": ["drop"]}, "fault must be one of"),
        ({"fault": "drop", "lane": -1}, "lane"),
        ({"fault": "drop", "lane": True}, "lane"),
        ({"fault": "drop", "percent": 0}, "percent must be a number above 0"),
        ({"fault": "drop", "percent": 101}, "percent"),
        ({"fault": "drop", "count": 0}, "count"),
        ({"fault": "drop", "ms": 1.5}, "ms"),
        ({"fault": "drop", "id": 3}, "unknown field: id"),
    ],
)
def test_a_wrong_rule_is_refused(rule: Any, named: str) -> None:
    """The message names the field, and no rule is added."""
    desk = FaultDesk()
    with pytest.raises(InvalidRequest, match=named):
        desk.add(rule)
    assert desk.rules == []
