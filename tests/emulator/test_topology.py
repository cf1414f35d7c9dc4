"""The committed configuration is the topology's."""

from __future__ import annotations

import json

from emulator.topology import CONFIG, TOPOLOGY, render
from servicebus_emulator.broker.broker import Broker
from servicebus_emulator.broker.filters import CorrelationFilter
from servicebus_emulator.configuration import load
from tests.servicebus_emulator.fakes import StillClock, Text

#: step types by service
SERVICES = {each["name"]: each["stepType"] for each in json.loads(TOPOLOGY.read_text())["services"]}


def test_config_json_is_made_from_the_topology() -> None:
    """Config.json is, byte for byte, the output of `python -m scripts.generate`."""
    assert render() == CONFIG.read_text(encoding="utf-8")


def test_it_holds_what_the_contract_promises() -> None:
    """16 directive topics with a subscription a service, 16 reply topics, one of public events; locks and filters."""
    topics = dict(load(CONFIG).topics)
    names = {f"global-bus-p{lane}" for lane in range(16)} | {f"global-bus-replies-p{lane}" for lane in range(16)}
    assert names | {"lucius-events"} == {topic.name for topic in topics}
    for topic, subscriptions in topics.items():
        if topic.name == "lucius-events":
            assert (topic.requires_duplicate_detection, topic.duplicate_window_ms) == (True, 300_000)
            assert [*subscriptions] == []
            continue
        if "replies" in topic.name:
            [reply] = subscriptions
            assert (
                reply.queue.name,
                reply.queue.lock_duration_ms,
                reply.queue.max_delivery_count,
            ) == ("lucius-invoker", 60_000, 10)
            continue
        assert (topic.requires_duplicate_detection, topic.duplicate_window_ms) == (True, 300_000)
        for subscription, (service, step_type) in zip(subscriptions, SERVICES.items(), strict=True):
            queue = subscription.queue
            assert (service, 300_000, 10, False) == (
                queue.name,
                queue.lock_duration_ms,
                queue.max_delivery_count,
                queue.dead_lettering_on_expiration,
            )
            [rule] = subscription.rules
            assert ("$Default", CorrelationFilter({}, {"step_type": step_type})) == (rule.name, rule.filter)


def test_a_directive_reaches_its_service_alone() -> None:
    """The one subscription of its step type gets a directive; no subscription gets another step type."""
    broker = Broker(StillClock())
    load(CONFIG).create_in(broker)
    lane = broker.destination("global-bus-p15")
    first, *_, last = SERVICES.values()
    for number, step_type in enumerate((first, last, first.lower(), "UNKNOWN")):
        lane.send(Text(step_type, message_id=f"m-{number}", properties={"step_type": step_type}))
    found = {name: broker.queue(f"global-bus-p15/subscriptions/{name}").counts()["active"] for name in SERVICES}
    assert found == {name: int(step_type in (first, last)) for name, step_type in SERVICES.items()}
