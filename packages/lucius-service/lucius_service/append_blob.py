"""A blob to which one process at a time appends. Its methods are synchronous, for worker threads."""

from __future__ import annotations

from collections.abc import Callable

from azure.core import MatchConditions
from azure.core.exceptions import HttpResponseError, ResourceExistsError, ResourceNotFoundError
from azure.storage.blob import BlobClient, ContentSettings

from lucius_service.storage_faults import storage_faults


class Overtaken(Exception):
    """Another process has appended to the blob, or the blob was deleted. This process must not append again."""


class AppendBlob:
    """A blob to which each append names its position, so that a repeated append writes nothing twice.

    After a process opens the blob and appends, the next append of an earlier process raises Overtaken.
    """

    def __init__(self, blob: BlobClient, make_container: Callable[[BlobClient], None]) -> None:
        self._blob = blob
        self._make_container = make_container
        #: size in bytes
        self.size = 0

    def create(self, content_type: str) -> bool:
        """Creates the blob and returns `True`, or opens an existing blob and returns `False`. Raises StepFailed."""
        with storage_faults():
            try:
                self._create(content_type)
            except ResourceExistsError:
                return not self.open()
            except ResourceNotFoundError:
                self._make_container(self._blob)
                self._create(content_type)
        self.size = 0
        return True

    def open(self) -> bool:
        """Opens the blob. Returns `False` if the blob does not exist. Raises StepFailed."""
        with storage_faults():
            try:
                self.size = self._blob.get_blob_properties().size
            except ResourceNotFoundError:
                return False
        return True

    def append(self, data: bytes) -> None:
        """Appends at most 4 MiB. Raises Overtaken if another process has appended, or the blob is deleted. After
        StepFailed, the caller can append the same data again.
        """
        with storage_faults():
            try:
                self._blob.append_block(data, length=len(data), appendpos_condition=self.size)
            except HttpResponseError as error:
                # the response to an earlier try of the same append may be lost
                if error.status_code != 412 or not self._has(data):
                    if error.status_code in (404, 412):
                        raise Overtaken from None
                    raise
        self.size += len(data)

    def _create(self, content_type: str) -> None:
        settings = ContentSettings(content_type=content_type)
        self._blob.create_append_blob(content_settings=settings, match_condition=MatchConditions.IfMissing)

    def _has(self, data: bytes) -> bool:
        """Returns True if the blob ends with `data` after `size`."""
        if self._blob.get_blob_properties().size != self.size + len(data):
            return False
        return bool(self._blob.download_blob(offset=self.size, length=len(data)).readall() == data)
