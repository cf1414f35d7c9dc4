"""The format of an export of the tables: a manifest, and parts of rows as compressed NDJSON.

`NAME/manifest.json` lists the parts with their hashes; `complete` is written last. The form is stored: a
release reads the exports of its own store version only.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, Protocol

from shared.adapters.tables.account import STORE_VERSION
from shared.adapters.tables.table import INT64, Entity
from shared.errors import ExportUnfit

FORMAT = 1
#: the tables in the order of their export. The ledger is the last: a row of another table that is older than its job's
#: rows is what a crash leaves, and the sweeper repairs it; one that is newer has no such repair. The tenants come after
#: the index: the sweeper finds the jobs of a tenant by its row
ROLES = ("gates", "index", "feed", "rejected", "tenants", "ledger")
#: how the names of exports begin; a digest of the account follows
NAME = "%Y%m%dT%H%M%SZ"


class Files(Protocol):
    """Blobs of one container; each method raises LedgerUnavailable."""

    async def put_bytes(self, name: str, content: bytes) -> None: ...

    async def get_bytes(self, name: str) -> bytes:
        """Raises DataLost for a blob that is not there."""

    async def folders(self) -> list[str]:
        """The first parts of the names, in their order."""

    async def remove(self, prefix: str) -> object: ...


@dataclass
class Part:
    blob: str
    sha256: str
    rows: int


@dataclass
class TablePart:
    """The rows of one table."""

    role: str
    parts: list[Part] = field(default_factory=list)
    done: bool = False
    #: all rows were read; of the feed, later events are left
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
    #: the process that continues the export; another one stops
    writer: str = ""
    #: keys of the last row in the parts of the table that is not done
    position: tuple[str, str] | None = None
    #: by partition of the feeds that have later events to read, the key of the last event in the parts
    feeds: dict[str, str] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        return sum(part.rows for table in self.tables for part in table.parts)

    def text(self) -> str:
        values = asdict(self)
        for name in ("started_at", "ended_at"):
            values[name] = values[name] and values[name].isoformat()
        return json.dumps(values, indent=1)


def manifest_blob(name: str) -> str:
    return f"{name}/manifest.json"


async def read_manifest(files: Files, name: str) -> Manifest:
    """Raises ExportUnfit for one that this release cannot read; DataLost, LedgerUnavailable."""
    content = await files.get_bytes(manifest_blob(name))
    try:
        values = json.loads(content)
        if (found := (values["format"], values["store_version"])) != (FORMAT, STORE_VERSION):
            raise ExportUnfit(
                f"export {name} has format {found[0]} and store version {found[1]}, and this release reads {FORMAT} "
                f"and {STORE_VERSION}: restore it with the release that wrote it"
            )
        tables = [TablePart(**{**each, "parts": [Part(**part) for part in each["parts"]]}) for each in values["tables"]]
        dates = {
            key: datetime.fromisoformat(values[key]) if values[key] else None for key in ("started_at", "ended_at")
        }
        position = tuple(values["position"]) if values["position"] else None
        return Manifest(**{**values, **dates, "tables": tables, "position": position})
    except (ValueError, KeyError, TypeError) as error:
        raise ExportUnfit(f"the manifest of export {name} cannot be read: take another export") from error


def packed(rows: Iterable[str]) -> tuple[bytes, str]:
    """The content of a part, and its hash. The same rows give the same bytes."""
    content = gzip.compress("".join(f"{row}\n" for row in rows).encode(), compresslevel=5, mtime=0)
    return content, hashlib.sha256(content).hexdigest()


async def unpacked(files: Files, part: Part) -> Iterator[dict[str, Any]]:
    """The rows of a part, as they are written. Raises ExportUnfit for a part that is not as the manifest says."""
    content = await files.get_bytes(part.blob)
    if hashlib.sha256(content).hexdigest() != part.sha256:
        raise ExportUnfit(f"{part.blob} is damaged: take another export")
    return (decoded(line) for line in gzip.decompress(content).decode().splitlines())


def encoded(row: Entity) -> str:
    """Returns a row as one NDJSON record, with the type of each value that JSON does not have."""
    return _ENCODER.encode({name: _typed(value, name in row.int64) for name, value in row.items()})


_ENCODER = json.JSONEncoder(separators=(",", ":"))


def _typed(value: Any, is_long: bool) -> Any:
    match value:
        case datetime():
            return {"t": value.isoformat()}
        case bytes():
            return {"b": base64.b64encode(value).decode()}
        case int() if is_long:
            return {"l": value}
    return value


def decoded(line: str) -> dict[str, Any]:
    return {name: _plain(value) for name, value in json.loads(line).items()}


def _plain(value: Any) -> Any:
    match value:
        case {"t": text}:
            return datetime.fromisoformat(text)
        case {"b": text}:
            return base64.b64decode(text)
        case {"l": number}:
            return number, INT64
    return value
