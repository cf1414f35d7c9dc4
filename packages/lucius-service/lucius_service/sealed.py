"""Runs the step of a recorded attempt again, over local files, without bus, storage and API."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import quote, unquote

from lucius_service import replies
from lucius_service.directive import Directive
from lucius_service.errors import INPUT_NOT_FOUND, REF_UNSUPPORTED, FailedFinal
from lucius_service.results import publish_result
from lucius_service.step import Step
from lucius_service.testing import Heard, MemoryWorkspace
from lucius_service.work import work
from lucius_service.workspace_io import Document, Owner


class LocalWorkspace(MemoryWorkspace):
    """Blobs of an account from a local folder, as `CONTAINER/NAME`.

    Blobs that steps write stay in memory, and can be read.
    """

    def __init__(self, account: str, folder: Path | None) -> None:
        """Sets the URL of the account and the local folder. Without a folder only blobs that steps write exist."""
        super().__init__({})
        self._account = f"{account.rstrip('/')}/"
        self._folder = folder.resolve() if folder is not None else None

    def read(self, uri: str, tenant_id: str | None = None) -> Document:
        if uri in self.blobs:
            return super().read(uri)
        if not uri.startswith(self._account):
            raise FailedFinal(REF_UNSUPPORTED, f"only blobs under {self._account} are read: {uri[:300]}")
        name = unquote(uri.removeprefix(self._account).partition("?")[0])
        try:
            path = None if self._folder is None else (self._folder / name).resolve()
            # the reference is untrusted: it must not lead out of the folder
            if path is None or self._folder not in path.parents:
                raise FileNotFoundError
            return Document(uri, path.read_bytes())
        except (OSError, ValueError):
            text = f"local file not found: {name[:300]}; name a folder that has the file"
            raise FailedFinal(INPUT_NOT_FOUND, text) from None

    def write(self, base_uri: str, name: str, data: bytes | BinaryIO, content_type: str) -> str:
        return super().write(base_uri, quote(name), data, content_type)

    def copy(self, source_uri: str, target_uri: str, owner: Owner) -> str:
        self.blobs[target_uri] = data = self.read(source_uri).data
        return f"sha256:{hashlib.sha256(data).hexdigest()}"

    def tenant_folder(self, workspace_uri: str, container: str) -> str:
        return f"{self._account}{container}/{workspace_uri.removeprefix(self._account).split('/')[2]}"


def run_recorded(step: Step, directive: bytes, workspace: LocalWorkspace) -> dict[str, Any]:
    """Returns the RESULT of the step for a recorded directive (JSON). Call `prepare` first.

    Raises ValueError for an invalid directive. Raises StepFailed, and any error of a bug in the step.
    """
    attempt = Directive.model_validate_json(directive)
    result = replies.succeeded(attempt, work(step, attempt, workspace, Heard()))
    return publish_result(attempt, result, workspace)
