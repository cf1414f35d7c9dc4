"""Reads the input of `lucius submit`: files, folders, patterns, URIs, and lines with job requests."""

from __future__ import annotations

import glob
import json
import mimetypes
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from lucius_client.cli.exits import UsageError
from lucius_client.cli.rendering import Json

#: limits of one request of the API
MAX_LINES = 1000
MAX_BYTES = 1024 * 1024


#: by step type of a protocol's first step: function that returns True for a media type that the step reads. A step of
#: another type reads all files
_READS: dict[str, Callable[[str], bool]] = {
    "OCR": lambda kind: kind in ("application/pdf", "image/png", "image/jpeg", "image/tiff"),
    "EMBEDDING": lambda kind: kind.startswith("text/") or kind == "application/json",
    "SIS": lambda kind: kind.startswith("text/") or kind == "application/json",
}


@dataclass
class Selection:
    """The documents to submit."""

    #: URIs and paths
    names: list[str]
    #: files of folders, which the user did not name
    found: set[str]

    def readable(self, step_type: str) -> tuple[list[str], list[str]]:
        """Returns the documents without duplicates, and the files of folders that a step of `step_type` does not read.

        Raises UsageError if there are no documents.
        """
        reads = _READS.get(step_type)
        skipped = [
            name
            for name in dict.fromkeys(self.names)
            if reads is not None and name in self.found and not reads(mimetypes.guess_type(name)[0] or "")
        ]
        taken = [name for name in dict.fromkeys(self.names) if name not in skipped]
        if not taken:
            raise UsageError(
                f"no file that {step_type} can read ({len(skipped)} skipped); --include PATTERN includes skipped files"
            )
        return taken, skipped


def documents(names: list[str], include: Sequence[str] = ()) -> Selection:
    """Returns the documents that `names` stand for: URIs, files, patterns of paths, and folders.

    A folder stands for all files below the folder that are neither hidden nor in `__pycache__`. With `include`, a
    folder stands only for the files whose names match a pattern. Raises UsageError if a name stands for no file.
    """
    selected: list[str] = []
    found, named = set[str](), set[str]()
    for name in names:
        path = Path(name).expanduser()
        if is_uri(name) or path.is_file():
            selected.append(name if is_uri(name) else str(path))
            named.add(selected[-1])
            continue
        inside = _inside(path, include) if path.is_dir() else sorted(glob.glob(str(path), recursive=True))
        files = [file for file in inside if Path(file).is_file()]
        if not files:
            matching = f" matches {', '.join(include)}" if include else ""
            advice = "to read job requests from stdin, use --ndjson -" if name == "-" else "check the path"
            raise UsageError(
                f"no file in {name}{matching}; name another folder"
                if path.is_dir()
                else f"no such file: {name}; {advice}"
            )
        selected += files
        (found if path.is_dir() and not include else named).update(files)
    return Selection(selected, found - named)


def _inside(folder: Path, include: Sequence[str]) -> list[str]:
    files = [file for file in sorted(folder.rglob("*")) if not _hidden(file.relative_to(folder))]
    return [str(file) for file in files if not include or any(fnmatch(file.name, pattern) for pattern in include)]


def unique_labels(names: Sequence[str]) -> list[str]:
    """Returns the last part of each path or URI. Adds a number to a repeated name: `a.pdf`, `a.pdf (2)`."""
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


def _hidden(path: Path) -> bool:
    return any(part.startswith(".") or part == "__pycache__" for part in path.parts)


def envelopes(source: str, defaults: Json) -> dict[int, Json]:
    """Returns the job requests of an NDJSON file by line number, from 1. The path `-` means standard input.

    `defaults` has the values of fields that a line omits. Raises UsageError if the file cannot be read or has no job
    request, or if a line is not a JSON object.
    """
    found = {}
    for number, line in enumerate(_lines(source), start=1):
        if not line.strip():
            continue
        try:
            envelope = json.loads(line)
        except ValueError as error:
            raise UsageError(f"{source}:{number}: not JSON: {error}; write one job request in each line") from error
        if not isinstance(envelope, dict):
            raise UsageError(f"{source}:{number}: not a JSON object; write one job request in each line")
        found[number] = {**defaults, **envelope}
    if not found:
        raise UsageError(f"{source}: no job request found; write one job request in each line")
    return found


def _lines(source: str) -> list[str]:
    try:
        text = sys.stdin.read() if source == "-" else Path(source).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {source}: {error}; name another file") from error
    return text.split("\n")


def batches(lines: Iterable[Json]) -> Iterator[list[Json]]:
    """Yields the job requests in batches of at most `MAX_LINES` and `MAX_BYTES`, one for each API request.

    A job request with more than `MAX_BYTES` is a batch of its own.
    """
    batch: list[Json] = []
    size = 0
    for line in lines:
        bytes_ = len(json.dumps(line, ensure_ascii=False).encode("utf-8")) + 64  # includes a key and the line break
        if batch and (len(batch) == MAX_LINES or size + bytes_ > MAX_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(line)
        size += bytes_
    if batch:
        yield batch
