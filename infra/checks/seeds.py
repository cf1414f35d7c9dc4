"""Checks the first content of the configuration store against `protocols/`.

A protocol without a seed would exist on a laptop and not in Azure.
"""

from __future__ import annotations

import json
from pathlib import Path

from infra.checks.finding import Finding
from infra.checks.snapshots import Snapshot

_KEYS = "Microsoft.AppConfiguration/configurationStores/keyValues"


def check(root: Path) -> list[Finding]:
    """Checks that each protocol and schema of the folder is a key of `protocols.json` with that text, and that no other
    key exists.
    """
    path = root / "infra" / "bicep" / "protocols.json"
    seeded = {entry["key"]: entry["value"] for entry in json.loads(path.read_text(encoding="utf-8"))}
    folder = {key: path.read_text(encoding="utf-8") for key, path in seeds(root / "protocols").items()}
    return [
        Finding(path, 0, "seeds", f"{key} differs from protocols/; run make generate")
        for key in sorted(folder.keys() | seeded.keys())
        if folder.get(key) != seeded.get(key)
    ]


def check_snapshot(root: Path, snapshot: Snapshot) -> list[Finding]:
    """Checks that a deployment that writes keys writes each key of `protocols.json`."""
    written = {each.name.partition("/")[2].replace("~3A", ":").replace("~2F", "/") for each in snapshot.of(_KEYS)}
    missing = sorted(seeds(root / "protocols").keys() - written) if written else []
    return [snapshot.finding("seeds", None, f"the template does not write {key} into the store") for key in missing]


def seeds(folder: Path) -> dict[str, Path]:
    """Returns the files of protocols and payload schemas by their keys (docs/reference/app-configuration.md)."""
    found = {f"lucius:protocols:{_name(path)}": path for path in sorted(folder.glob("*.json"))}
    schemas = sorted(folder.rglob("*.schema.json"))
    return found | {f"lucius:schemas:{path.relative_to(folder).as_posix()}": path for path in schemas}


def _name(path: Path) -> str:
    """Returns the protocol's id. Adds the version if the file has another name, such as the file of a second
    version.
    """
    definition = json.loads(path.read_text(encoding="utf-8"))
    protocol_id = str(definition["protocol_id"])
    return protocol_id if protocol_id == path.stem else f"{protocol_id}:{definition['version']}"
