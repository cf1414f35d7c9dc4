"""Reads the jobs of an audit bundle with their events: the smallest reader, which trusts the file."""

from __future__ import annotations

import json
import tarfile
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tape.recording import History, Row, TapeError


@dataclass(frozen=True)
class _History:
    job: Row
    steps: Sequence[Row]
    events: Sequence[Row]
    withheld: Sequence[str]


def read_histories(path: Path) -> list[History]:
    """Every job of the bundle. Raises TapeError."""
    rows: dict[str, list[Any]] = {}
    try:
        with tarfile.open(path, "r:gz") as bundle:
            for name in ("jobs.jsonl", "history.jsonl"):
                member = bundle.extractfile(name)
                rows[name] = [json.loads(line) for line in member or ()]
        events = defaultdict(list)
        for event in rows["history.jsonl"]:
            events[event["job_id"]].append(event)
        return [
            _History(each["job"], each["steps"], events[each["job_id"]], each.get("withheld", ()))
            for each in rows["jobs.jsonl"]
        ]
    except (OSError, KeyError, ValueError, TypeError, tarfile.TarError) as wrong:
        raise TapeError(f"{path} is not an audit bundle: {wrong}") from None
