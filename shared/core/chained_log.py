"""Logs whose entries are numbered without gaps and chained from the first one on: of gates and incidents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from shared.core.canonical import jcs_digest


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A row of a log; each log adds the column that says whose it is."""

    #: from 1 on, without gaps
    seq: int
    type: str
    actor: str
    reason: str
    at: datetime
    #: what was changed
    data: Mapping[str, Any]
    prev_hash: str
    hash: str


def chained(values: Mapping[str, Any], *, seq: int, prev_hash: str) -> dict[str, Any]:
    """Makes the columns of the entry after number `seq` with hash `prev_hash`. For the first entry these are 0 and "".

    `values`: every other column but the hash.
    """
    whole = {**values, "seq": seq + 1, "prev_hash": prev_hash}
    return {**whole, "hash": entry_hash(whole)}


def entry_hash(values: Mapping[str, Any]) -> str:
    """Returns the chain link: SHA-256 over the canonical JSON (RFC 8785) of every field but `hash`."""
    plain = {name: value for name, value in values.items() if name != "hash"}
    plain["at"] = values["at"].astimezone(UTC).isoformat(timespec="microseconds")
    return jcs_digest(plain)
