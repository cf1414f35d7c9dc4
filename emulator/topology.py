"""`python -m emulator.topology --write|--check`: `infra/bus/Config.json` from `infra/bicep/topology.json`.

The topology is one file, which Bicep reads too; the emulators' configuration is made from it.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
TOPOLOGY = ROOT / "infra" / "bicep" / "topology.json"
CONFIG = ROOT / "infra" / "bus" / "Config.json"


def config(topology: dict[str, Any]) -> dict[str, Any]:
    """The Config.json document of a topology."""
    lanes = range(topology["lanes"])
    topics = [_directive_topic(topology, lane) for lane in lanes] + [_reply_topic(topology, lane) for lane in lanes]
    namespace = {"Name": "sbemulatorns", "Queues": [], "Topics": topics}
    return {"UserConfig": {"Namespaces": [namespace], "Logging": {"Type": "File"}}}


def _directive_topic(topology: dict[str, Any], lane: int) -> dict[str, Any]:
    directives = topology["directives"]
    return {
        "Name": f"{directives['prefix']}{lane}",
        "Properties": {
            "DuplicateDetectionHistoryTimeWindow": directives["duplicateDetectionWindow"],
            "RequiresDuplicateDetection": True,
        },
        "Subscriptions": [_service_subscription(directives, service) for service in topology["services"]],
    }


def _service_subscription(directives: dict[str, Any], service: dict[str, Any]) -> dict[str, Any]:
    # Named $Default, the rule replaces the one that would let every directive through.
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


def _reply_topic(topology: dict[str, Any], lane: int) -> dict[str, Any]:
    replies = topology["replies"]
    return {
        "Name": f"{replies['prefix']}{lane}",
        "Properties": {},
        "Subscriptions": [
            {
                "Name": replies["subscription"],
                "Properties": {
                    "LockDuration": replies["lockDuration"],
                    "MaxDeliveryCount": replies["maxDeliveryCount"],
                },
                "Rules": [],
            }
        ],
    }


def render(topology_path: Path = TOPOLOGY) -> str:
    """The text of Config.json."""
    return json.dumps(config(json.loads(topology_path.read_text(encoding="utf-8"))), indent=2) + "\n"


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m emulator.topology", description=(__doc__ or "").strip())
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--write", action="store_true", help="write Config.json")
    action.add_argument("--check", action="store_true", help="exit 1 if Config.json is not what it should be")
    args = parser.parse_args(argv)
    text = render()
    if args.write:
        CONFIG.parent.mkdir(parents=True, exist_ok=True)
        CONFIG.write_text(text, encoding="utf-8")
        return 0
    if not CONFIG.exists() or CONFIG.read_text(encoding="utf-8") != text:
        print(f"{CONFIG.name} differs from {TOPOLOGY.name}: run python -m emulator.topology --write", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
