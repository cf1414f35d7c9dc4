"""Encodes and decodes the messages between `direct` and the Table service: rows, filters and transactions. The module
does no I/O.

https://learn.microsoft.com/rest/api/storageservices/table-service-rest-api
"""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote
from uuid import UUID

from azure.core import MatchConditions
from azure.data.tables import UpdateMode

from shared.adapters.tables.table import INT64, Entity, RowOperation, meaning

#: bound of Edm.Int32
_INT32 = 2**31
_INT64 = 2**63
_TYPE = "@odata.type"

#: boundaries that no part can contain: JSON escapes line ends, and keys are quoted
_BATCH, _CHANGES = "batch_lucius", "changeset_lucius"
TRANSACTION_TYPE = f"multipart/mixed; boundary={_BATCH}"
_HEAD = (
    f"--{_BATCH}\r\nContent-Type: multipart/mixed; boundary={_CHANGES}\r\n\r\n"
    f"--{_CHANGES}\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n"
)
_NEXT = f"\r\n--{_CHANGES}\r\nContent-Type: application/http\r\nContent-Transfer-Encoding: binary\r\n\r\n"
_TAIL = f"\r\n--{_CHANGES}--\r\n--{_BATCH}--\r\n"
_WRITE = "Accept: application/json;odata=nometadata\r\nDataServiceVersion: 3.0\r\n"
_WRITE_ROW = f"{_WRITE}Content-Type: application/json\r\n"

_PART = re.compile(rb"^HTTP/1\.1 (\d{3})\b", re.MULTILINE)
_ETAG = re.compile(rb"^etag:[ \t]*([^\r\n]+?)[ \t]*\r?$", re.MULTILINE | re.IGNORECASE)
_XML_CODE = re.compile(rb"<(?:\w+:)?code>(\w+)<", re.IGNORECASE)


def path_of(table: str, partition: str, row: str) -> str:
    """Returns a row's path relative to the account. Raises TypeError, ValueError if a key is not text."""
    return f"/{table}(PartitionKey='{_key(partition)}',RowKey='{_key(row)}')"


def _key(value: str) -> str:
    if not isinstance(value, str):
        raise TypeError("a key must be text")
    return quote(value.replace("'", "''"), safe="")


_ENCODER = json.JSONEncoder(separators=(",", ":"))


def json_of(entity: Mapping[str, Any]) -> str:
    """Encodes the row as ASCII JSON. Raises TypeError, ValueError, OverflowError for a value of another type."""
    properties: dict[str, Any] = {}
    for name, value in entity.items():
        if type(value) is str or type(value) is bool:
            properties[name] = value
        elif value is not None:
            properties[name], edm = _edm(value)
            if edm is not None:
                properties[name + _TYPE] = edm
    return _ENCODER.encode(properties)


def _edm(value: Any) -> tuple[Any, str | None]:
    """Returns a value in JSON, and the name of its type if JSON does not show the type. A number outside of Edm.Int32
    must be given as `(number, "Edm.Int64")`. Raises TypeError for a value that no column can hold.
    """
    match value:
        case str():
            return str(value), None
        case int() if -_INT32 <= value < _INT32:
            return value, None
        case (int() as number, "Edm.Int64") if -_INT64 <= number < _INT64:
            return str(number), "Edm.Int64"
        case float():
            return value if math.isfinite(value) else _NOT_FINITE[str(value)], "Edm.Double"
        case datetime():
            return _instant(value), "Edm.DateTime"
        case UUID():
            return str(value), "Edm.Guid"
        case bytes():
            return base64.b64encode(value).decode(), "Edm.Binary"
    raise TypeError(f"a column cannot store this {type(value).__name__}")


_NOT_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def _instant(value: datetime) -> str:
    return value.astimezone(UTC).isoformat(timespec="microseconds").removesuffix("+00:00") + "Z"


def filter_of(query_filter: str, parameters: Mapping[str, Any] | None) -> str:
    """Returns the filter with literals in place of its parameters. Raises KeyError, TypeError."""
    if not parameters:
        return query_filter
    words = query_filter.split(" ")
    return " ".join(_literal(parameters[word[1:]]) if word.startswith("@") else word for word in words)


def _literal(value: Any) -> str:
    match value:
        case bool():
            return str(value).lower()
        case int():
            return str(value) if -_INT32 <= value < _INT32 else f"{value}L"
        case datetime():
            return f"datetime'{_instant(value)}'"
        case str():
            return "'" + value.replace("'", "''") + "'"
    raise TypeError(f"no literal of a {type(value).__name__}")


def if_match(options: Mapping[str, Any] = {}) -> str:
    """Returns the header `If-Match` of an update or a deletion. Raises ValueError."""
    etag, condition = options.get("etag"), options.get("match_condition")
    if condition is MatchConditions.IfNotModified and etag:
        return str(etag)
    if condition in (None, MatchConditions.Unconditionally) and not etag:
        return "*"
    raise ValueError("`etag` must be set if `match_condition` is IfNotModified, and only then")


def transaction_of(account: str, table: str, operations: Sequence[RowOperation]) -> bytes:
    """Makes the body of one entity-group transaction. `account` is the URL of the account. Raises TypeError,
    ValueError, OverflowError.
    """
    if len({operation[1]["PartitionKey"] for operation in operations}) > 1:
        raise ValueError("a transaction has one partition")
    return (_HEAD + _NEXT.join(_part(account, table, *operation) for operation in operations) + _TAIL).encode("ascii")


def _part(account: str, table: str, verb: str, entity: Mapping[str, Any], options: Mapping[str, Any] = {}) -> str:
    if verb == "create":
        # the response needs no row
        return f"POST {account}/{table} HTTP/1.1\r\n{_WRITE_ROW}Prefer: return-no-content\r\n\r\n{json_of(entity)}"
    url = account + path_of(table, entity["PartitionKey"], entity["RowKey"])
    method = method_of(verb, options)
    match = "" if verb == "upsert" else f"If-Match: {if_match(options)}\r\n"
    if verb == "delete":
        return f"{method} {url} HTTP/1.1\r\n{_WRITE}{match}\r\n"
    return f"{method} {url} HTTP/1.1\r\n{_WRITE_ROW}{match}\r\n{json_of(entity)}"


def method_of(verb: str, options: Mapping[str, Any] = {}) -> str:
    """Returns the HTTP method of an operation on a row by its key. Raises ValueError, KeyError."""
    if verb == "delete":
        return "DELETE"
    if verb not in ("update", "upsert"):
        raise ValueError("the operation must be delete, update or upsert")
    return {UpdateMode.MERGE: "PATCH", UpdateMode.REPLACE: "PUT"}[options.get("mode", UpdateMode.MERGE)]


def metadata_of(content_type: str, body: bytes) -> list[dict[str, Any]]:
    """Returns a mapping for each operation, with its `etag` if the response has one. Raises the error of a failed
    operation, as `meaning` returns it.

    Raises any exception if the response is malformed.
    """
    starts = [found.start() for found in _PART.finditer(body)]
    if not content_type.startswith("multipart/mixed") or not starts:
        raise ValueError("not a response to a transaction")
    parts = [body[start:end] for start, end in zip(starts, [*starts[1:], len(body)], strict=True)]
    metadata = []
    for part in parts:
        status = int(part[9:12])
        if not 200 <= status < 300:
            raise error_of(status, part[part.find(b"{") : part.rfind(b"}") + 1], None)
        found = _ETAG.search(part)
        metadata.append({"etag": found[1].decode()} if found else {})
    return metadata


def error_of(status: int, body: bytes, code: str | None) -> Exception:
    """Returns the error of a refused request. `code` is the value of the response's header `x-ms-error-code`."""
    message = ""
    try:
        problem = json.loads(body)["odata.error"]
        code, message = str(problem["code"]), str(problem["message"]["value"])
    except (ValueError, TypeError, LookupError):
        # errors of the storage account's front end are XML
        if (found := _XML_CODE.search(body)) is not None:
            code = found[1].decode()
    return meaning(status, code, f"{message}\nErrorCode:{code}")


def row_of(found: dict[str, Any]) -> Entity:
    """Decodes a row of a response. Raises any exception if the response is malformed."""
    etag, timestamp = found.pop("odata.etag", None), found.pop("Timestamp", None)
    if etag is None and timestamp is not None:
        # the same derivation as the SDK's (`azure.data.tables._deserialize`)
        etag = f"W/\"datetime'{quote(timestamp)}'\""
    values: dict[str, Any] = {}
    int64: list[str] = []
    for name, value in found.items():
        if name.endswith(_TYPE):
            column = name.removesuffix(_TYPE)
            if column in found:
                values[column] = _READ.get(value, str)(found[column])
                if value == INT64:
                    int64.append(column)
        elif not name.startswith("odata.") and name not in values:
            values[name] = value
    return Entity(values, etag, int64)


def _read_instant(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


_READ: dict[str, Any] = {
    "Edm.Int64": int,
    "Edm.Double": float,
    "Edm.DateTime": _read_instant,
    "Edm.Guid": UUID,
    "Edm.Binary": base64.b64decode,
    "Edm.Int32": int,
    "Edm.Boolean": bool,
}
