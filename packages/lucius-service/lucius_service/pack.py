"""A pack: a folder with `pack.json` and a Python program, and the digest of its files (`planHash`)."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

MANIFEST = "pack.json"
#: maximum files of a pack, since they are copied for each run
MAX_FILES = 1000
MAX_BYTES = 64 * 2**20
_MAX_MANIFEST = 64 * 1024
#: folder with bytecode, which Python writes next to imported modules
_BYTECODE = "__pycache__"


class PackInvalid(Exception):
    """The folder is not a valid pack, or a file of the folder cannot be read. The message is one line."""


class Manifest(BaseModel):
    """The content of `pack.json`."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    packId: Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,62}$")]
    packVersion: Annotated[str, Field(pattern=r"^[0-9A-Za-z][0-9A-Za-z.+-]{0,31}$")]
    #: path of the program, relative to the pack's folder
    entry: str = "main.py"
    description: str = ""
    #: `True` if the runner reads the document at the job's `input_ref`, which must exist
    input: bool = True

    @field_validator("entry")
    @classmethod
    def _entry_is_inside(cls, entry: str) -> str:
        path = PurePosixPath(entry)
        if path.is_absolute() or ".." in path.parts or "\\" in entry or "\0" in entry or path.suffix != ".py":
            raise ValueError("must be the path of a .py file inside the pack")
        return str(path)


@dataclass(frozen=True)
class Pack:
    """The folder and the manifest of a pack."""

    folder: Path
    manifest: Manifest


def read_pack(folder: Path) -> Pack:
    """Reads the manifest of a pack. Raises PackInvalid."""
    try:
        with (folder / MANIFEST).open("rb") as file:
            text = file.read(_MAX_MANIFEST + 1)
    except OSError as error:
        raise PackInvalid(f"{folder / MANIFEST}: {error.strerror}") from None
    if len(text) > _MAX_MANIFEST:
        raise PackInvalid(f"{folder / MANIFEST}: has more than {_MAX_MANIFEST} bytes")
    try:
        return Pack(folder, Manifest.model_validate(json.loads(text)))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the manifest"
        raise PackInvalid(f"{folder / MANIFEST}: {where}: {first['msg']}") from None
    except (ValueError, RecursionError):
        raise PackInvalid(f"{folder / MANIFEST}: is not JSON") from None


def plan_hash(pack: Pack, copy_to: Path | None = None) -> str:
    """Returns `sha256:{hex}` of the pack's files. Copies each hashed file into the folder `copy_to`, if given.

    The hash is the SHA-256 of the lines that `sha256sum` prints for all files, sorted by the bytes of their paths. The
    hash covers names and contents, but not modes and times. Folders `__pycache__` are neither hashed nor copied.

    Raises PackInvalid if the pack exceeds a limit, its program is missing, or a file cannot be read. Raises PackInvalid
    for an entry that is not a folder or a regular file, and for a name with a backslash or an unprintable character.
    """
    lines, size = [], 0
    for path in _files(pack.folder):
        data = _content(pack.folder / path, MAX_BYTES - size)
        size += len(data)
        lines.append(f"{hashlib.sha256(data).hexdigest()}  {path}\n")
        if copy_to is not None:
            (copy_to / path).parent.mkdir(parents=True, exist_ok=True)
            (copy_to / path).write_bytes(data)
    if pack.manifest.entry not in {line[66:-1] for line in lines}:
        raise PackInvalid(f"{pack.folder}: the program {pack.manifest.entry} does not exist")
    return f"sha256:{hashlib.sha256(''.join(lines).encode()).hexdigest()}"


def _files(folder: Path) -> list[str]:
    """Returns the paths of the pack's files, sorted by their bytes."""
    found: list[str] = []
    for where, folders, names in os.walk(folder):
        folders[:] = [each for each in folders if each != _BYTECODE]
        for name in (*folders, *names):
            path = (Path(where) / name).relative_to(folder).as_posix()
            if not path.isprintable() or "\\" in path:
                raise PackInvalid(f"{folder}: the name {path!r} has a backslash or an unprintable character")
            if (Path(where) / name).is_symlink():
                raise PackInvalid(f"{folder}: {path} is a symbolic link")
        found += [(Path(where) / name).relative_to(folder).as_posix() for name in names]
        if len(found) > MAX_FILES:
            raise PackInvalid(f"{folder}: has more than {MAX_FILES} files")
    return sorted(found, key=str.encode)


def _content(path: Path, left: int) -> bytes:
    """Returns the content of a regular file with at most `left` bytes."""
    try:
        # a name may have become a link since it was listed; a pipe would wait for its writer
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise PackInvalid(f"{path}: is not a regular file")
            data = file.read(left + 1)
    except OSError as error:
        raise PackInvalid(f"{path}: {error.strerror}") from None
    if len(data) > left:
        raise PackInvalid(f"{path}: the pack has more than {MAX_BYTES // 2**20} MiB")
    return data
