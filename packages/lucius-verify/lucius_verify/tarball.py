"""Reads an untrusted `.tar.gz` as a stream: plain files with known names, in a fixed order, within limits.

Python's `tarfile` reads links, devices and extended headers of any size. A bundle has only plain files with plain POSIX
headers (ustar), so this reader refuses any other header. The reader extracts no file.
"""

from __future__ import annotations

import gzip
import hashlib
import re
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

from lucius_verify.faults import Unreadable

#: first bytes of a bundle; the bundle of one job is JSON
GZIP = b"\x1f\x8b"
_BLOCK = 512
_CHUNK = 1 << 20
#: maximum bytes of all files together, decompressed
MAX_BYTES = 32 << 30
#: maximum decompressed bytes for each compressed one, after the first 64 MiB; histories have about 6
MAX_RATIO = 200
_RATIO_FROM = 64 << 20
#: maximum bytes of one row
MAX_ROW = 16 << 20
MAX_MEMBERS = 20_000

MANIFEST = "manifest.json"
#: names of the files of every bundle, in their order after the manifest
FILES = ("README.txt", "heads.jsonl", "jobs.jsonl", "history.jsonl", "throttles.jsonl", "links.jsonl")
KEYS = "signatures/keys.json"
_ORDER = [
    *(re.compile(re.escape(name)) for name in (MANIFEST, *FILES)),
    re.compile(r"anchors/\d{4}-\d\d-\d\d\.jsonl"),
    re.compile(re.escape(KEYS)),
    re.compile(r"signatures/anchor-\d{4}-\d\d-\d\d\.json"),
    re.compile(r"signatures/heads-\d{6}\.json"),
]


def place(name: str) -> tuple[int, str]:
    """Returns the position of a member in a bundle. Raises ValueError for a name that a bundle cannot have."""
    for rank, pattern in enumerate(_ORDER):
        if pattern.fullmatch(name):
            return rank, name
    raise ValueError(f"a bundle cannot have a file {name}")


class Tarball:
    """A reader of the members of a file, one after another. Methods raise Unreadable."""

    def __init__(self, path: Path) -> None:
        try:
            self._raw: BinaryIO = path.open("rb")
        except OSError as error:
            raise Unreadable(f"the bundle cannot be opened: {error.strerror}") from None
        self._file = gzip.GzipFile(fileobj=self._raw)
        self._read = 0
        #: name of the present member
        self.name = ""
        self.size = 0
        #: hash of the bytes read from it, and number of its rows
        self.sha256 = hashlib.sha256()
        self.row_count = 0
        self._left = 0
        self._padding = 0

    def __enter__(self) -> Tarball:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()
        self._raw.close()

    def members(self) -> Iterator[str]:
        """Yields the name of each member. Until the next name, `chunks`, `rows` and `whole` read that member."""
        last = (-1, "")
        for count in range(MAX_MEMBERS + 1):
            for _ in self.chunks():
                pass
            self._take(self._padding)
            header = self._take(_BLOCK)
            if header == bytes(_BLOCK):
                self._end()
                return
            if count == MAX_MEMBERS:
                raise Unreadable(f"the bundle has more than {MAX_MEMBERS} files")
            self._enter(header)
            try:
                here = place(self.name)
            except ValueError as unknown:
                raise Unreadable(str(unknown)) from None
            if here <= last:
                raise Unreadable("the file is repeated or out of order", self.name)
            last = here
            yield self.name

    def chunks(self) -> Iterator[bytes]:
        """Yields the rest of the member in pieces."""
        while self._left:
            chunk = self._take(min(self._left, _CHUNK))
            self._left -= len(chunk)
            self.sha256.update(chunk)
            self.row_count += chunk.count(b"\n")
            yield chunk

    def rows(self) -> Iterator[bytes]:
        """Yields the lines of the member, each without its line break. Raises Unreadable for a line that has more than
        `MAX_ROW` bytes, or whose line break is missing.
        """
        rest, row = b"", 0
        for chunk in self.chunks():
            *whole, rest = (rest + chunk).split(b"\n")
            for each in whole:
                row += 1
                if len(each) > MAX_ROW:
                    raise Unreadable(f"the row has more than {MAX_ROW} bytes", self.name, row)
                yield each
            if len(rest) > MAX_ROW:
                raise Unreadable(f"the row has more than {MAX_ROW} bytes", self.name, row + 1)
        if rest:
            raise Unreadable("the row is cut off", self.name, row + 1)

    def whole(self, limit: int) -> bytes:
        """Returns the content of the member, at most `limit` bytes. Raises Unreadable."""
        if self.size > limit:
            raise Unreadable(f"the file has more than {limit} bytes", self.name)
        return b"".join(self.chunks())

    def _enter(self, header: bytes) -> None:
        name = header[:100].rstrip(b"\0").decode("ascii", "replace")
        plain = header[257:263] == b"ustar\0" and header[156:157] in (b"0", b"\0") and not any(header[345:500])
        try:
            size, checksum = (
                int(header[start:end].strip(b" \0") or b"0", 8) for start, end in ((124, 136), (148, 156))
            )
        except ValueError:
            plain = False
        if not plain or checksum != sum(header) - sum(header[148:156]) + 8 * ord(" "):
            raise Unreadable("a member is not a plain file of a tar archive (POSIX ustar)", self.name or None)
        self.name, self.size, self._left = name, size, size
        self.sha256, self.row_count = hashlib.sha256(), 0
        self._padding = -size % _BLOCK
        if self._read + size > MAX_BYTES:
            raise Unreadable(f"the files of the bundle have more than {MAX_BYTES} bytes", name)

    def _end(self) -> None:
        """Checks that only zeros follow the last member."""
        while chunk := self._some(_CHUNK):
            if chunk.strip(b"\0"):
                raise Unreadable("bytes other than zero follow the end of the archive")

    def _take(self, count: int) -> bytes:
        found = b""
        while len(found) < count:
            chunk = self._some(count - len(found))
            if not chunk:
                raise Unreadable("the file is cut off", self.name or None)
            found = found + chunk if found else chunk
        return found

    def _some(self, count: int) -> bytes:
        try:
            chunk = self._file.read(count)
            packed = self._raw.tell()
        except (EOFError, OSError, zlib.error) as torn:
            raise Unreadable(f"the file is cut off or damaged: {torn}", self.name or None) from None
        self._read += len(chunk)
        if self._read > MAX_BYTES or (self._read > _RATIO_FROM and self._read > MAX_RATIO * packed):
            raise Unreadable(
                f"the bundle unpacks to more than {MAX_RATIO} times its size, or to more than {MAX_BYTES} bytes",
                self.name,
            )
        return chunk


def write(path: Path, files: Iterator[tuple[str, Path]]) -> None:
    """Writes the files as members of a new `.tar.gz`. The same files give the same bytes with the same version of
    zlib.
    """
    with path.open("wb") as raw, gzip.GzipFile(filename="", fileobj=raw, mode="wb", mtime=0) as packed:
        for name, source in files:
            header = tarfile.TarInfo(name)
            header.size = source.stat().st_size
            header.mode = 0o644
            packed.write(header.tobuf(tarfile.USTAR_FORMAT))
            with source.open("rb") as content:
                while chunk := content.read(_CHUNK):
                    packed.write(chunk)
            packed.write(bytes(-header.size % _BLOCK))
        packed.write(bytes(2 * _BLOCK))
