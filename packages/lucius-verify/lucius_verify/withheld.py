"""Content that an export withholds unless it is requested: payloads, texts of services, and query strings of
references.

If the `data` of an event has such content, the export has `data_digest` instead of `data`. The hash of the event covers
the digest, so a reader can verify the chain but cannot guess the content.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator

from lucius_verify.json_rows import Json, Row, canonical

_EMPTY: tuple[Json, ...] = (None, "", {})
#: query string and fragment of a URI
_QUERY = re.compile(r"^([a-z][a-z0-9+.-]*:[^?#\s]*)[?#].*", re.IGNORECASE | re.DOTALL)
#: fields with text of a caller or a service
_WORDS = frozenset({"payload", "message", "reason", "last_error_message", "error_message"})
_ERRORS = frozenset({"last_error_message", "error_message"})
#: events with text of a service; error texts of others are LUCIUS's own
_OF_SERVICES = frozenset({"RESULT", "REPLY_IGNORED"})


def without_content(line: Row, events: list[Row]) -> tuple[Row, list[Row]]:
    """Returns a row of `jobs.jsonl` and its events without content. `withheld` in the row names the removed or cut
    columns.
    """
    kept = [_event(event) for event in events]
    own = {text for event in kept for text in _error_texts(event.get("data"))}
    withheld: list[str] = []
    job = _row(line["job"], "job", own, withheld)
    steps = [_row(step, step["step_id"], own, withheld) for step in line["steps"]]
    return {**line, "job": job, "steps": steps, "withheld": withheld}, kept


def _row(row: Row, name: str, own: set[str], withheld: list[str]) -> Row:
    kept = {}
    for column, value in row.items():
        if column in _ERRORS and value in own:
            kept[column] = value
            continue
        found = {column: value}
        if has_content(found):
            withheld.append(f"{name}.{column}")
            found = _cut(found)
        kept |= found
    return kept


def _event(event: Row) -> Row:
    if "data" not in event or not has_content(event["data"], _WORDS if event["type"] in _OF_SERVICES else frozenset()):
        return event
    kept = {name: value for name, value in event.items() if name not in ("data", "salt")}
    salted = bytes.fromhex(event["salt"]) + canonical(event["data"])
    return {**kept, "data_digest": hashlib.sha256(salted).hexdigest()}


def has_content(value: Json, words: frozenset[str] = _WORDS) -> bool:
    """Returns True if a value has a field of `words` that is not empty, or a URI with a query string or a fragment."""
    if isinstance(value, dict):
        return any((name in words and each not in _EMPTY) or has_content(each, words) for name, each in value.items())
    if isinstance(value, list):
        return any(has_content(each, words) for each in value)
    return isinstance(value, str) and _without_query(value) != value


def _error_texts(data: Json) -> Iterator[str]:
    changes = data.get("changes", {}) if isinstance(data, dict) else {}
    for columns in (changes.get("job", {}), *changes.get("steps", {}).values()):
        yield from (columns[name] for name in _ERRORS if columns.get(name))


def _cut(value: Json) -> Json:
    if isinstance(value, dict):
        return {name: _cut(each) for name, each in value.items() if name not in _WORDS or each in _EMPTY}
    if isinstance(value, list):
        return [_cut(each) for each in value]
    return _without_query(value) if isinstance(value, str) else value


def _without_query(text: str) -> str:
    return _QUERY.sub(r"\1", text)
