"""The types of stored rows, by their keys."""

from __future__ import annotations

import inspect
import json
import re
from datetime import UTC, date, datetime
from typing import Any

from shared.adapters.tables import keys
from tests.jobs import ROOT

#: partitions that are no tenant's and no job's
_SHARED = {"=feed", "=feeds", "=hooks", "=minutes", "asks", "books", "bulks", "protocols", "services", "tenants"} | {
    "schema"
}
_SHARED_WITH_TYPES = {"=guard", "directory", "incidents"}
_OF_A_JOB = ("JOB", "STEP:", "EVENT:")


def type_of(partition: str, row: str) -> str:
    """The row's type: the first part of its key, with the partition if that is no tenant's and no job's.

    `USAGE:JOBS` has the last part too: each of them is written by another part of the app.
    """
    first = row.partition(":")[0]
    if partition in _SHARED:
        return partition
    if partition in _SHARED_WITH_TYPES:
        return f"{partition} {first}"
    if re.fullmatch(r"\d+|\{time\}", first):
        return "rejected message"
    return f"USAGE:{row.rpartition(':')[2]}" if first == "USAGE" else first


def promised_types() -> set[str]:
    """Types of the promised names of rows, and of the keys that `shared/adapters/tables/keys.py` makes."""
    promised = json.loads((ROOT / "tests" / "promised_names.json").read_text())["row keys"]
    return {type_of(*key.split(" | ")) for key in promised} | {
        type_of("tenant_a", key) for name, key in _made_keys().items() if name not in _OTHER_PARTITIONS
    }


#: functions whose keys are in a shared partition, from the promised names
_OTHER_PARTITIONS = {"fold_again_row", "protocol_row", "bulk_due_row", "share_row", "minute_row"}
_ARGUMENTS: dict[str, Any] = {
    "int": 1,
    "str": "x",
    "datetime": datetime(2026, 1, 1, tzinfo=UTC),
    "date": date(2026, 1, 1),
}


def _made_keys() -> dict[str, str]:
    """The key of each function `..._row`."""
    made = {}
    for name, function in inspect.getmembers(keys, inspect.isfunction):
        if name.endswith("_row"):
            parameters = inspect.signature(function).parameters.values()
            part = "JOBS" if name == "usage_row" else "x"
            given = [_ARGUMENTS[str(each.annotation).partition(" ")[0]] for each in parameters]
            made[name] = function(*[part if each == "x" else each for each in given])
    return made
