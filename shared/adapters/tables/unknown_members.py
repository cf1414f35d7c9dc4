"""Keeps columns and JSON fields of a later release when this release writes the row again (R44).

A completely replaced row gets the columns of this release, and each part of the stored row that this release does not
know. A part is unknown if this release does not write the part for the object that it read.

The objects of `shared.core` do not have these parts. The write takes the parts from the stored row of the object
(`StoredAdmission.row`). A merged row needs no such treatment.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from typing import Any

from shared.adapters.tables.columns import join_text, json_text, split_text
from shared.adapters.tables.table import INT64, Entity

_KEYS = frozenset({"PartitionKey", "RowKey"})
RowValues = Mapping[str, Any]


def keep(
    stored: RowValues | None,
    before: RowValues,
    after: RowValues,
    *,
    parts: Collection[str] = (),
    whole: Collection[str] = (),
) -> dict[str, Any]:
    """Returns the row `after` with each part of `stored` that `before` does not have.

    - `stored` is the row as read, or None if no row was stored.
    - `before` is the row that this release writes for the object that it read. Without JSON objects, the names of its
      columns are enough.
    - `parts` are columns with continuations (`columns.split_json`).
    - `whole` has the names of columns and JSON fields that are single values. If this release changes such a value,
      nothing of the old value stays.
    """
    if stored is None:
        return dict(after)
    pieces_of = re.compile(rf"({'|'.join(map(re.escape, parts))})_\d+") if parts else None
    kept = dict(after)
    for name in stored:
        if name in _KEYS or name in parts or (pieces_of is not None and pieces_of.fullmatch(name)):
            continue
        if name not in before and name not in after:
            kept[name] = _read_column(stored, name)
        elif name in after and not (name in whole and after[name] != before.get(name)):
            kept[name] = _merge_column(stored[name], before.get(name), after[name], whole)
    for name in parts:
        if name in stored and name in before and name in after:
            text = _merge_column(join_text(name, stored), join_text(name, before), join_text(name, after), whole)
            kept |= split_text(name, text)
    return kept


def _read_column(stored: RowValues, name: str) -> Any:
    value = stored[name]
    is_long = isinstance(stored, Entity) and name in stored.int64
    return (value, INT64) if is_long else value


def _merge_column(stored: Any, before: Any, after: Any, whole: Collection[str]) -> Any:
    """Returns the column `after`, with the unknown fields of the stored JSON text."""
    if stored == before or not (isinstance(stored, str) and isinstance(before, str) and isinstance(after, str)):
        return after
    try:
        return json_text(_merge(json.loads(stored), json.loads(before), json.loads(after), whole))
    except ValueError:
        # plain text
        return after


def _merge(stored: Any, before: Any, after: Any, whole: Collection[str]) -> Any:
    if stored == before:
        return after
    if isinstance(stored, dict) and isinstance(before, dict) and isinstance(after, dict):
        known = {
            name: value
            if name not in stored or name not in before or (name in whole and value != before[name])
            else _merge(stored[name], before[name], value, whole)
            for name, value in after.items()
        }
        return known | {name: stored[name] for name in stored if name not in before and name not in after}
    if isinstance(stored, list) and isinstance(before, list) and isinstance(after, list):
        return _merge_list(stored, before, after, whole)
    return after


def _merge_list(stored: list[Any], before: list[Any], after: list[Any], whole: Collection[str]) -> list[Any]:
    if len(stored) > len(before) == len(after):
        # each element is a member, by its position
        first = [_merge(*each, whole) for each in zip(stored, before, after, strict=False)]
        return first + stored[len(before) :]
    if len(stored) == len(before):
        # a list of elements of one kind: an unchanged element stays as stored
        as_stored = {json_text(known): each for each, known in zip(stored, before, strict=True) if each != known}
        return [as_stored.get(json_text(each), each) for each in after]
    return after
