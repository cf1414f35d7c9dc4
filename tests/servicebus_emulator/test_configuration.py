"""Config.json of the official emulator."""

from __future__ import annotations

from typing import Any

import pytest

from servicebus_emulator.broker.filters import CorrelationFilter, TrueFilter
from servicebus_emulator.broker.sql import SqlAction, SqlFilter
from servicebus_emulator.configuration import ConfigurationError, from_names, parse


def document(queues: list[Any] | None = None, topics: list[Any] | None = None) -> dict[str, Any]:
    namespace = {"Name": "sbemulatorns", "Queues": queues or [], "Topics": topics or []}
    return {"UserConfig": {"Namespaces": [namespace], "Logging": {"Type": "File"}}}


def test_every_property() -> None:
    """All properties of queues, topics, subscriptions and rules are read."""
    topology = parse(
        document(
            [
                {
                    "Name": "q",
                    "Properties": {
                        "DeadLetteringOnMessageExpiration": True,
                        "DefaultMessageTimeToLive": "PT1H",
                        "DuplicateDetectionHistoryTimeWindow": "PT20S",
                        "ForwardDeadLetteredMessagesTo": "dead",
                        "ForwardTo": "",
                        "LockDuration": "PT1M",
                        "MaxDeliveryCount": 3,
                        "RequiresDuplicateDetection": True,
                        "RequiresSession": True,
                    },
                },
                {"Name": "dead"},
            ],
            [
                {
                    "Name": "t",
                    "Properties": {
                        "DefaultMessageTimeToLive": "P1D",
                        "DuplicateDetectionHistoryTimeWindow": "PT5M",
                        "RequiresDuplicateDetection": False,
                    },
                    "Subscriptions": [
                        {
                            "Name": "s",
                            "Properties": {"ForwardTo": "dead", "LockDuration": "PT30S"},
                            "Rules": [
                                {
                                    "Name": "c",
                                    "Properties": {
                                        "FilterType": "Correlation",
                                        "CorrelationFilter": {"Label": "l", "Properties": {"p": "v"}},
                                    },
                                },
                                {
                                    "Name": "sql",
                                    "Properties": {
                                        "FilterType": "Sql",
                                        "SqlFilter": {"SqlExpression": "sys.To IS NOT NULL"},
                                        "Action": {"SqlExpression": "SET a = 1"},
                                    },
                                },
                            ],
                        },
                        {"Name": "all"},
                    ],
                }
            ],
        )
    )
    queue = topology.queues[0]
    assert (queue.dead_lettering_on_expiration, queue.default_time_to_live_ms) == (True, 3_600_000)
    assert (queue.duplicate_window_ms, queue.requires_duplicate_detection) == (20_000, True)
    assert (queue.forward_to, queue.forward_dead_letters_to) == (None, "dead")
    assert (queue.lock_duration_ms, queue.max_delivery_count, queue.requires_session) == (60_000, 3, True)
    [(topic, [first, second])] = topology.topics
    assert (topic.default_time_to_live_ms, topic.duplicate_window_ms) == (86_400_000, 300_000)
    assert (first.queue.forward_to, first.queue.lock_duration_ms) == ("dead", 30_000)
    assert [rule.filter for rule in first.rules] == [
        CorrelationFilter({"Label": "l"}, {"p": "v"}),
        SqlFilter("sys.To IS NOT NULL"),
    ]
    assert [rule.action for rule in first.rules] == [None, SqlAction("SET a = 1")]
    assert [(rule.name, rule.filter) for rule in second.rules] == [("$Default", TrueFilter())]


def rule(**properties: Any) -> dict[str, Any]:
    return document(
        topics=[{"Name": "t", "Subscriptions": [{"Name": "s", "Rules": [{"Name": "r", "Properties": properties}]}]}]
    )


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ([], "the file: must be an object"),
        ({}, "the file lacks 'UserConfig'"),
        ({"UserConfig": {"Namespaces": []}}, "exactly one namespace"),
        ({"UserConfig": {"Namespaces": [{"Name": "n", "Queues": []}]}}, "Topics: must be a list"),
        (document([{"Name": "q", "Colour": 1}]), r"Queues\[0\] has the unknown property 'Colour'"),
        (document([{"Properties": {}}]), r"Queues\[0\].Name is missing"),
        (document([{"Name": "q", "Properties": {"LockDuration": "1m"}}]), "LockDuration: '1m' is not an ISO 8601"),
        (document([{"Name": "q", "Properties": {"LockDuration": 60}}]), "LockDuration"),
        (document([{"Name": "q", "Properties": {"LockDuration": "P10675199D"}}]), "shorter than the maximum duration"),
        (document([{"Name": "q", "Properties": {"MaxDeliveryCount": 0}}]), "at least 1"),
        (document([{"Name": "q", "Properties": {"MaxDeliveryCount": "3"}}]), "must be of the type int"),
        (document([{"Name": "q", "Properties": {"ForwardTo": "x"}}]), "forwards to 'x', which is not configured"),
        (document([{"Name": "q"}, {"Name": "Q"}]), "two entities are named 'q'"),
        (document(topics=[{"Name": "t"}]), r"Topics\[0\].Subscriptions: must be a list"),
        (rule(FilterType="Regex"), "Correlation or Sql expected, not 'Regex'"),
        (rule(FilterType="Sql", SqlFilter={"SqlExpression": "a ="}), "a value expected"),
        (rule(FilterType="Sql", CorrelationFilter={}), "'CorrelationFilter' is not allowed with FilterType Sql"),
        (rule(FilterType="Correlation", CorrelationFilter={"Color": "x"}), "unknown property 'Color'"),
        (rule(FilterType="Correlation"), "must name at least one property"),
    ],
)
def test_mistakes_are_named(config: Any, message: str) -> None:
    """A wrong or unknown value is an error that names its place."""
    with pytest.raises(ConfigurationError, match=message):
        parse(config)


def test_entities_from_the_command_line() -> None:
    """`--queue q --topic t/a --topic t/b` makes a queue and a topic with two subscriptions."""
    topology = from_names(["q"], ["t/a", "t/b"])
    assert [queue.name for queue in topology.queues] == ["q"]
    [(topic, subscriptions)] = topology.topics
    assert (topic.name, [item.queue.name for item in subscriptions]) == ("t", ["a", "b"])
