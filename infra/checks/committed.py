"""The short form of the snapshots, which is committed and shows a reviewer the effect of a changed template.

The short form omits tags and nulls, and merges resources that differ only by the number of a lane. The short form names
rights as `roles.py` does, and replaces queries and other long texts by a digest.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from pathlib import Path
from typing import Any

from infra.checks import roles
from infra.checks.finding import CheckFailed, Finding
from infra.checks.snapshots import Resource, Snapshot, settings, short

FOLDER = Path("infra/bicep/snapshots")
#: maximum characters of a shown text
_LONGEST = 450


def text(snapshot: Snapshot) -> str:
    """Returns the short form: JSON, with a line for each value."""
    counts = Counter(json.dumps(_short(each), ensure_ascii=False) for each in snapshot.resources)
    entries = []
    for line, count in sorted(counts.items()):
        entries.append(json.loads(line) | ({"count": count} if count > 1 else {}))
    return json.dumps(entries, ensure_ascii=False, indent=1) + "\n"


def write(root: Path, snapshots: list[Snapshot]) -> None:
    """Writes the short forms, and deletes other files of the folder. Raises CheckFailed if the folder cannot be
    written.
    """
    try:
        (root / FOLDER).mkdir(exist_ok=True)
        for path, content in _files(root, snapshots).items():
            path.write_text(content, encoding="utf-8")
        for path in set((root / FOLDER).glob("*.json")) - _files(root, snapshots).keys():
            path.unlink()
    except OSError as error:
        raise CheckFailed(f"{error.filename}: cannot be written: {error.strerror}") from error


def check(root: Path, snapshots: list[Snapshot]) -> list[Finding]:
    """Returns a finding for each committed snapshot that differs from the deployment of its parameter file."""
    expected = _files(root, snapshots)
    return [
        Finding(path, 0, "snapshot", "differs from the templates: run make generate, and review the changes")
        for path in expected.keys() | set((root / FOLDER).glob("*.json"))
        if not path.exists() or path.read_text(encoding="utf-8") != expected.get(path)
    ]


def _files(root: Path, snapshots: list[Snapshot]) -> dict[Path, str]:
    return {root / FOLDER / f"{each.file.stem}.json": text(each) for each in snapshots}


def _short(resource: Resource) -> dict[str, Any]:
    if resource.type == "Microsoft.Authorization/roleAssignments":
        right = {name: value for name, value in roles.right(resource)._asdict().items() if value}
        return {"type": resource.type, **right}
    content = {name: value for name, value in resource.content.items() if name not in ("id", "name", "tags", "type")}
    if resource.type == "Microsoft.Web/sites/config":
        content["properties"] = settings(content["properties"])
    shown: dict[str, Any] = _value({"type": resource.type, "name": resource.name, **content})
    return shown


def _value(value: Any) -> Any:
    if isinstance(value, dict):
        return {short(key): _value(each) for key, each in value.items() if each is not None}
    if isinstance(value, list):
        items = [_value(each) for each in value]
        return [each for index, each in enumerate(items) if each not in items[:index]]
    if not isinstance(value, str):
        return value
    plain = short(value)
    return (
        plain
        if len(plain) <= _LONGEST and "\n" not in plain
        else f"sha256:{hashlib.sha256(plain.encode()).hexdigest()[:16]}"
    )
