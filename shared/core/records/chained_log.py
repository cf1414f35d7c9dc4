"""Hash-chained logs of quotas, incidents and webhooks, with entries numbered without gaps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from shared.core.records.canonical import jcs_digest


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A row of a log. Each kind of log adds the column that names its subject."""

    #: number of the entry, from 1 on, without gaps
    seq: int
    type: str
    actor: str
    reason: str
    at: datetime
    #: the changed values
    data: Mapping[str, Any]
    prev_hash: str
    hash: str


def chain_entry(values: Mapping[str, Any], *, seq: int, prev_hash: str) -> dict[str, Any]:
    """Makes the columns of the entry after number `seq`, which has the hash `prev_hash`. The first entry follows 0 and
    "".

    `values` has all other columns except the hash.
    """
    whole = {**values, "seq": seq + 1, "prev_hash": prev_hash}
    return {**whole, "hash": entry_hash(whole)}


def entry_hash(values: Mapping[str, Any]) -> str:
    """Returns the chain link: SHA-256 over the canonical JSON (RFC 8785) of every field except `hash`."""
    plain = {name: value for name, value in values.items() if name != "hash"}
    plain["at"] = values["at"].astimezone(UTC).isoformat(timespec="microseconds")
    return jcs_digest(plain)
