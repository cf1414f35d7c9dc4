"""The artifacts of a run: the files that its program left in `artifacts/`."""

from __future__ import annotations

import hashlib
import mimetypes
import os
import re
import stat
from io import BufferedReader
from pathlib import Path

from lucius_service.errors import FailedFinal
from lucius_service.step import Artifact
from lucius_service.workspace_io import Workspace

ARTIFACT_INVALID = "ARTIFACT_INVALID"
MAX_ARTIFACTS = 100
#: valid as a part of a URL and as a file name on every system
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")


def store_artifacts(folder: Path, user: int | None, workspace: Workspace, base_uri: str) -> list[Artifact]:
    """Writes each file as `{base_uri}/{name}`. Must be called after the last process of the run has ended.

    The program chose names and kinds, so links are not followed. A file must be a regular file of the run's own user
    with a single name. Raises FailedFinal(ARTIFACT_INVALID) before the first write, and StepFailed.
    """
    try:
        directory = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError as error:
        raise FailedFinal(ARTIFACT_INVALID, f"artifacts/ cannot be read: {error.strerror}") from None
    try:
        names = sorted(os.listdir(directory))
        if len(names) > MAX_ARTIFACTS:
            raise FailedFinal(ARTIFACT_INVALID, f"artifacts/ has {len(names)} files; the maximum is {MAX_ARTIFACTS}")
        for name in names:
            _open(directory, name, user).close()
        return [_store(directory, name, user, workspace, base_uri) for name in names]
    finally:
        os.close(directory)


def _store(directory: int, name: str, user: int | None, workspace: Workspace, base_uri: str) -> Artifact:
    media_type = mimetypes.guess_type(name)[0] or "application/octet-stream"
    with _open(directory, name, user) as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        size = file.tell()
        file.seek(0)
        uri = workspace.write(base_uri, name, file, media_type)
    return Artifact(name, uri, media_type, size, digest)


def _open(directory: int, name: str, user: int | None) -> BufferedReader:
    shown = name.encode(errors="backslashreplace").decode()[:200]
    if not _NAME.fullmatch(name):
        what = "the name must have 1 to 128 letters, digits, periods, hyphens and underscores"
        raise FailedFinal(ARTIFACT_INVALID, f"artifacts/{shown}: {what}, and must not begin with a period or a hyphen")
    try:
        file = os.fdopen(os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=directory), "rb")
    except OSError as error:
        raise FailedFinal(
            ARTIFACT_INVALID, f"artifacts/{shown}: is a link or cannot be read: {error.strerror}"
        ) from None
    found = os.fstat(file.fileno())
    if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1 or (user is not None and found.st_uid != user):
        file.close()
        raise FailedFinal(ARTIFACT_INVALID, f"artifacts/{shown}: is not a plain file that the run created")
    return file
