"""The format of an export of the tables: a manifest, and parts of rows as compressed NDJSON.

`NAME/manifest.json` lists the parts with their hashes. The field `complete` is written last. Stored exports have this
format. A release reads only exports of its own store version.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import Any, Protocol

from shared.adapters.tables.account import STORE_VERSION
from shared.adapters.tables.table import INT64, Entity
from shared.errors import ExportUnfit

FORMAT = 1
#: tables in the order of their export. The ledger is last: if a row of another table is older than its job, the sweeper
#: repairs it as after a crash. A newer one has no such repair. The tenants come after the index: the sweeper finds a
#: tenant's jobs by the tenant's row
ROLES = ("gates", "index", "feed", "rejected", "tenants", "ledger")
#: start of an export's name; a digest of the account follows
NAME = "%Y%m%dT%H%M%SZ"


class Files(Protocol):
    """A container of blobs. Each method raises LedgerUnavailable if the storage does not give a valid response."""

    async def put_bytes(self, name: str, content: bytes) -> None: ...

    async def get_bytes(self, name: str) -> bytes:
        """Returns a blob. Raises DataLost if the blob does not exist."""

    async def folders(self) -> list[str]:
        """Returns the first segment of the names, without duplicates, in order."""

    async def remove(self, prefix: str) -> object: ...


@dataclass
class Part:
    blob: str
    sha256: str
    rows: int


@dataclass
class TablePart:
    """The exported parts of one table, and the progress of the export."""

    role: str
    parts: list[Part] = field(default_factory=list)
    done: bool = False
    #: `True` if all rows were read; for the feed, later events may be left
    read: bool = False


@dataclass
class Manifest:
    name: str
    started_at: datetime
    ended_at: datetime | None = None
    complete: bool = False
    format: int = FORMAT
    store_version: int = STORE_VERSION
    tables: list[TablePart] = field(default_factory=lambda: [TablePart(role) for role in ROLES])
    #: id of the process that continues the export; another process stops
    writer: str = ""
    #: keys after which the export of the table in progress continues
    position: tuple[str, str] | None = None
    #: key of the last exported event, by partition of a feed with later events to read
    feeds: dict[str, str] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        return sum(part.rows for table in self.tables for part in table.parts)

    def text(self) -> str:
        # the feeds separately: asdict copies each of them
        values = {**asdict(replace(self, feeds={})), "feeds": self.feeds}
        for name in ("started_at", "ended_at"):
            values[name] = values[name] and values[name].isoformat()
        # no indent, with which `json` is slower, since a manifest can have an entry for each tenant
        return json.dumps(values)


def manifest_blob(name: str) -> str:
    return f"{name}/manifest.json"


async def read_manifest(files: Files, name: str) -> Manifest:
    """Reads the manifest. Raises ExportUnfit if this release cannot read the manifest. Raises DataLost,
    LedgerUnavailable.
    """
    content = await files.get_bytes(manifest_blob(name))
    try:
        values = json.loads(content)
        if (found := (values["format"], values["store_version"])) != (FORMAT, STORE_VERSION):
            raise ExportUnfit(
                f"export {name} has format {found[0]} and store version {found[1]}, but this release reads {FORMAT} "
                f"and {STORE_VERSION}; restore with the release that wrote the export"
            )
        tables = [TablePart(**{**each, "parts": [Part(**part) for part in each["parts"]]}) for each in values["tables"]]
        dates = {
            key: datetime.fromisoformat(values[key]) if values[key] else None for key in ("started_at", "ended_at")
        }
        position = tuple(values["position"]) if values["position"] else None
        return Manifest(**{**values, **dates, "tables": tables, "position": position})
    except (ValueError, KeyError, TypeError) as error:
        raise ExportUnfit(
            f"the manifest of export {name} cannot be read; restore another export (`list` shows the exports)"
        ) from error


def pack(rows: Iterable[str]) -> tuple[bytes, str]:
    """Returns the content of a part, and its hash. The same rows always give the same bytes."""
    content = gzip.compress("".join(f"{row}\n" for row in rows).encode(), compresslevel=5, mtime=0)
    return content, hashlib.sha256(content).hexdigest()


async def unpack(files: Files, part: Part) -> Iterator[dict[str, Any]]:
    """Returns the rows of a part. Raises ExportUnfit if the part differs from the manifest."""
    content = await files.get_bytes(part.blob)
    if hashlib.sha256(content).hexdigest() != part.sha256:
        raise ExportUnfit(f"{part.blob} is damaged; restore another export (`list` shows the exports)")
    return (decode_record(line) for line in gzip.decompress(content).decode().splitlines())


def encode_record(row: Entity) -> str:
    """Returns a row as one NDJSON record, with the types that JSON does not have."""
    return _ENCODER.encode({name: _encode_value(value, name in row.int64) for name, value in row.items()})


_ENCODER = json.JSONEncoder(separators=(",", ":"))


def _encode_value(value: Any, is_long: bool) -> Any:
    match value:
        case datetime():
            return {"t": value.isoformat()}
        case bytes():
            return {"b": base64.b64encode(value).decode()}
        case int() if is_long:
            return {"l": value}
    return value


def decode_record(line: str) -> dict[str, Any]:
    return {name: _decode_value(value) for name, value in json.loads(line).items()}


def _decode_value(value: Any) -> Any:
    match value:
        case {"t": text}:
            return datetime.fromisoformat(text)
        case {"b": text}:
            return base64.b64decode(text)
        case {"l": number}:
            return number, INT64
    return value
