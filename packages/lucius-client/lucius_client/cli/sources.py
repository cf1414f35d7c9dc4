"""The input of `lucius submit`: files, folders, patterns, URIs, and lines of envelopes."""

from __future__ import annotations

import glob
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from lucius_client.cli.exits import UsageError
from lucius_client.cli.rendering import Json

#: bounds of one request of the API
MAX_LINES = 1000
MAX_BYTES = 1024 * 1024


def documents(names: list[str]) -> list[str]:
    """The URIs and paths that `names` stand for, each once.

    A name is a URI, a file, a folder (all its files but hidden ones) or a pattern. Raises UsageError where there is no
    such file.
    """
    return list(dict.fromkeys(document for name in names for document in _expand(name)))


def unique_labels(names: Sequence[str]) -> list[str]:
    """The last part of each path or URI, numbered where it is not unique: `a.pdf`, `a.pdf (2)`."""
    labels: list[str] = []
    for name in names:
        short = name.rstrip("/").rsplit("/", 1)[-1] or name
        label, number = short, 2
        while label in labels:
            label, number = f"{short} ({number})", number + 1
        labels.append(label)
    return labels


def is_uri(name: str) -> bool:
    return name.startswith(("http://", "https://"))


def _expand(name: str) -> list[str]:
    path = Path(name).expanduser()
    if is_uri(name) or path.is_file():
        return [name if is_uri(name) else str(path)]
    if path.is_dir():
        inside = [file for file in sorted(path.rglob("*")) if file.is_file() and not _hidden(file.relative_to(path))]
    else:
        inside = [Path(match) for match in sorted(glob.glob(str(path), recursive=True)) if Path(match).is_file()]
    if not inside:
        raise UsageError(f"no such file: {name}" if not path.is_dir() else f"no file in {name}")
    return [str(file) for file in inside]


def _hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


def envelopes(source: str, defaults: Json) -> list[Json]:
    """The envelopes of an NDJSON file, one for each line; `-` is standard input.

    `defaults` are the fields that a line does not have. Raises UsageError for a line that is not a JSON object.
    """
    lines = []
    for number, line in enumerate(_lines(source), start=1):
        if not line.strip():
            continue
        try:
            envelope = json.loads(line)
        except ValueError as error:
            raise UsageError(f"{source}:{number}: {error}") from error
        if not isinstance(envelope, dict):
            raise UsageError(f"{source}:{number}: not a JSON object")
        lines.append({**defaults, **envelope})
    if not lines:
        raise UsageError(f"{source} has no line")
    return lines


def _lines(source: str) -> list[str]:
    try:
        text = sys.stdin.read() if source == "-" else Path(source).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {source}: {error}") from error
    return text.split("\n")


def batches(lines: Iterable[Json]) -> Iterator[list[Json]]:
    """Splits envelopes into as few requests as the bounds of the API allow."""
    batch: list[Json] = []
    size = 0
    for line in lines:
        bytes_ = len(json.dumps(line, ensure_ascii=False).encode("utf-8")) + 64  # room for a key and the line break
        if batch and (len(batch) == MAX_LINES or size + bytes_ > MAX_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(line)
        size += bytes_
    if batch:
        yield batch
