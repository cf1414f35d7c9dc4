"""`host.json` against its documented keys."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from infra.checks.finding import Finding
from infra.checks.known import KNOWN


def check(path: Path) -> list[Finding]:
    """Keys that are not documented; `*` in the list stands for free names (log categories, Durable's settings)."""
    try:
        content = json.loads(path.read_text())
    except ValueError as error:
        return [Finding(path, getattr(error, "lineno", 0), "host-json", f"is not JSON: {error}")]
    known = {tuple(key.split(".")) for key in KNOWN["host_json"]}
    return [
        Finding(path, 0, "host-json", f"{'.'.join(key)} is not a documented key")
        for key in _keys(content)
        if not any(_matches(key, each) for each in known)
    ]


def documented(key: tuple[str, ...]) -> bool:
    """Whether a key's path is in the list; app settings (`AzureFunctionsJobHost__a__b`) name the same keys."""
    return any(_matches(key, tuple(each.split("."))) for each in KNOWN["host_json"])


def _keys(value: Any, before: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Paths of the leaves."""
    if not isinstance(value, dict):
        yield before
        return
    for name, each in value.items():
        yield from _keys(each, (*before, name))


def _matches(key: tuple[str, ...], known: tuple[str, ...]) -> bool:
    if known and known[-1] == "*":
        return key[: len(known) - 1] == known[:-1] and len(key) >= len(known)
    return key == known
