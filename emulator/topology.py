"""Makes the configuration of the Service Bus emulator, `infra/bus/Config.json`, from `infra/bicep/topology.json`.

Bicep reads the same topology. `python -m scripts.generate` writes the configuration.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
TOPOLOGY = ROOT / "infra" / "bicep" / "topology.json"
CONFIG = ROOT / "infra" / "bus" / "Config.json"
#: maximum window of Microsoft's emulator
_LONGEST_WINDOW = "PT5M"
#: maximum in Microsoft's own configurations of its emulator
_LONGEST_LIFE = "PT1H"


def config(topology: dict[str, Any], *, shared_replies: bool = False) -> dict[str, Any]:
    """Returns the Config.json document of a topology. With `shared_replies` the reply topics forward to one queue."""
    lanes = range(topology["lanes"])
    topics = [_directive_topic(topology, lane) for lane in lanes] + [
        _reply_topic(topology["replies"], lane, forwards=shared_replies) for lane in lanes
    ]
    topics.append(_events_topic(topology["events"]))
    queues = [_queue(topology[name]) for name in ("admission", "hints", "webhooks", "replies")]
    namespace = {"Name": "sbemulatorns", "Queues": queues, "Topics": topics}
    return {"UserConfig": {"Namespaces": [namespace], "Logging": {"Type": "File"}}}


def _queue(queue: dict[str, Any]) -> dict[str, Any]:
    return {
        "Name": queue["queue"],
        "Properties": {
            "DefaultMessageTimeToLive": _LONGEST_LIFE,
            "LockDuration": queue["lockDuration"],
            "MaxDeliveryCount": queue["maxDeliveryCount"],
            "RequiresDuplicateDetection": False,
        },
    }


def _directive_topic(topology: dict[str, Any], lane: int) -> dict[str, Any]:
    directives = topology["directives"]
    return {
        "Name": f"{directives['prefix']}{lane}",
        "Properties": {
            "DuplicateDetectionHistoryTimeWindow": min(
                directives["duplicateDetectionWindow"], _LONGEST_WINDOW, key=_minutes
            ),
            "RequiresDuplicateDetection": True,
        },
        "Subscriptions": [_service_subscription(directives, service) for service in topology["services"]],
    }


def _minutes(duration: str) -> int:
    """Returns the minutes of a duration such as `PT30M`. The topology has whole minutes only."""
    return int(duration.removeprefix("PT").removesuffix("M"))


def _service_subscription(directives: dict[str, Any], service: dict[str, Any]) -> dict[str, Any]:
    # Named $Default, the rule replaces the one that would accept every directive.
    correlation = {"Properties": {"step_type": service["stepType"]}}
    return {
        "Name": service["name"],
        "Properties": {
            "DeadLetteringOnMessageExpiration": directives["deadLetteringOnMessageExpiration"],
            "LockDuration": directives["lockDuration"],
            "MaxDeliveryCount": directives["maxDeliveryCount"],
        },
        "Rules": [
            {
                "Name": "$Default",
                "Properties": {"FilterType": "Correlation", "CorrelationFilter": correlation},
            }
        ],
    }


def _reply_topic(replies: dict[str, Any], lane: int, *, forwards: bool) -> dict[str, Any]:
    name = f"{replies['prefix']}{lane}"
    # as in the template: the rule records the topic of a forwarded reply
    action = {"SqlExpression": f"SET {replies['topicProperty']} = '{name}'"}
    rule = {"FilterType": "Sql", "SqlFilter": {"SqlExpression": "1=1"}, "Action": action}
    return {
        "Name": name,
        "Properties": {},
        "Subscriptions": [
            {
                "Name": replies["subscription"],
                "Properties": {
                    "LockDuration": replies["lockDuration"],
                    "MaxDeliveryCount": replies["maxDeliveryCount"],
                    **({"ForwardTo": replies["queue"]} if forwards else {}),
                },
                "Rules": [{"Name": "$Default", "Properties": rule}] if forwards else [],
            }
        ],
    }


def _events_topic(events: dict[str, Any]) -> dict[str, Any]:
    """Returns the events topic without subscriptions. A reader creates its own subscription."""
    return {
        "Name": events["topic"],
        "Properties": {
            "DefaultMessageTimeToLive": _LONGEST_LIFE,
            "DuplicateDetectionHistoryTimeWindow": events["duplicateDetectionWindow"],
            "RequiresDuplicateDetection": True,
        },
        "Subscriptions": [],
    }


def render(topology_path: Path = TOPOLOGY, *, shared_replies: bool = False) -> str:
    """Returns the text of Config.json."""
    topology = json.loads(topology_path.read_text(encoding="utf-8"))
    return json.dumps(config(topology, shared_replies=shared_replies), indent=2) + "\n"
