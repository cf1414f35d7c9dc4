"""Checks the topics of the bus in the template, the topology and the emulator's Config.json."""

from __future__ import annotations

import json
from pathlib import Path

from infra.checks.finding import Finding
from infra.checks.snapshots import Snapshot

_TOPICS = "Microsoft.ServiceBus/namespaces/topics"
_RULES = f"{_TOPICS}/subscriptions/rules"
LANES = 16


def check_topology(root: Path) -> list[Finding]:
    """Checks that `topology.json` has 16 lanes in each direction."""
    path = root / "infra" / "bicep" / "topology.json"
    lanes = json.loads(path.read_text(encoding="utf-8"))["lanes"]
    return [] if lanes == LANES else [Finding(path, 0, "topics", f"lanes must be {LANES}, not {lanes}")]


def check(root: Path, snapshot: Snapshot) -> list[Finding]:
    """Checks that topics, subscriptions and queues are those of Config.json, and rules filter by step type.

    A rule with the name `$Default` replaces the rule of a new subscription that accepts all messages. The `$Default` of
    a reply subscription records the topic. Either all reply subscriptions forward to the queue of replies, or none.
    """
    replies = json.loads((root / "infra" / "bicep" / "topology.json").read_text(encoding="utf-8"))["replies"]
    config = json.loads((root / "infra" / "bus" / "Config.json").read_text(encoding="utf-8"))
    (namespace,) = config["UserConfig"]["Namespaces"]
    expected: dict[str, object] = {each["Name"]: None for each in [*namespace["Queues"], *namespace["Topics"]]}
    for topic in namespace["Topics"]:
        for subscription in topic["Subscriptions"]:
            path = f"{topic['Name']}/{subscription['Name']}"
            expected[path] = None
            for rule in subscription["Rules"]:
                step_type = rule["Properties"]["CorrelationFilter"]["Properties"]["step_type"]
                expected[f"{path}/{rule['Name']}"] = ("CorrelationFilter", {"step_type": step_type})
            if topic["Name"].startswith(replies["prefix"]):
                action = f"SET {replies['topicProperty']} = '{topic['Name']}'"
                expected[f"{path}/$Default"] = ("SqlFilter", action)
    given: dict[str, object] = {}
    for each in snapshot.of("Microsoft.ServiceBus/namespaces/queues", _TOPICS, f"{_TOPICS}/subscriptions", _RULES):
        kind = each.get("properties.filterType")
        shown = "action.sqlExpression" if kind == "SqlFilter" else "correlationFilter.properties"
        filtered = (kind, each.get(f"properties.{shown}"))
        given[each.name.partition("/")[2]] = filtered if each.type == _RULES else None
    wrong = {
        name
        for name in expected.keys() | given.keys()
        if (name in expected, expected.get(name)) != (name in given, given.get(name))
    }
    subscriptions = [
        each for each in snapshot.of(f"{_TOPICS}/subscriptions") if each.name.endswith(f"/{replies['subscription']}")
    ]
    targets = {str(each.get("properties.forwardTo")) for each in subscriptions}
    if targets not in ({"None"}, {replies["queue"]}):
        wrong.add("the reply subscriptions")
    return [
        snapshot.finding(
            "topics",
            None,
            f"{name}: the templates have other {'values' if name in expected and name in given else 'entities'} than "
            "Config.json",
        )
        for name in sorted(wrong)
    ]
