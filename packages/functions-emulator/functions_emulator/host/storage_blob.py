"""Blob triggers, inputs and outputs.

The trigger lists its container every second. The extension without Event Grid lists its container less often. The
host's store retains the name and ETag of each handled blob. After `poisonBlobThreshold` failures, the host does not
retry the blob until it changes, and a message goes to `webjobs-blobtrigger-poison`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from azure.core.exceptions import AzureError, ResourceExistsError, ResourceNotFoundError
from azure.functions.blob import InputStream
from azure.storage.blob import BlobProperties
from azure.storage.blob.aio import BlobServiceClient, ContainerClient

from functions_emulator.durable.store import Store
from functions_emulator.host.errors import BindingError
from functions_emulator.host.expressions import fill, match_path
from functions_emulator.host.functions import Binding, Function
from functions_emulator.host.settings import Settings

_LOG = logging.getLogger("functions_emulator.host")

_SCAN_INTERVAL_S = 1.0


class BlobTrigger:
    """A blob trigger. `invoke` runs the function with an `InputStream` and the binding data, and returns `True` if it
    succeeded.
    """

    def __init__(
        self,
        function: Function,
        connection: str,
        store: Store,
        invoke: Callable[[Function, Any, Mapping[str, Any]], Awaitable[bool]],
        give_up: Callable[[Function, str], Awaitable[None]],
        max_attempts: int,
    ) -> None:
        self._function = function
        self._connection = connection
        self._store = store
        self._invoke = invoke
        self._give_up = give_up
        self._max_attempts = max_attempts
        self._path = str(function.trigger.fields["path"])
        self._container = self._path.split("/", 1)[0]
        self._key = f"blobs:{function.name}"
        state = store.state(self._key)
        self._handled: dict[str, str] = dict(state) if state else {}
        self._failures: dict[tuple[str, str], int] = {}

    async def run(self) -> None:
        """Runs until cancelled."""
        lost = False
        async with BlobServiceClient.from_connection_string(self._connection) as service:
            container = service.get_container_client(self._container)
            while True:
                try:
                    await self._scan(container)
                    lost = False
                except ResourceNotFoundError:
                    pass  # the container does not exist yet
                except AzureError as error:
                    if not lost:
                        why = str(error).partition("\n")[0]
                        _LOG.warning("%s cannot read %s, retrying: %s", self._function.name, self._container, why)
                    lost = True
                await asyncio.sleep(_SCAN_INTERVAL_S)

    async def _scan(self, container: ContainerClient) -> None:
        async for blob in container.list_blobs(include=["metadata"]):
            path = f"{self._container}/{blob.name}"
            data = match_path(self._path, path)
            if data is None or self._handled.get(blob.name) == blob.etag:
                continue
            content = await (await container.download_blob(blob.name)).readall()
            uri = f"{container.url}/{blob.name}"
            if await self._invoke(self._function, _stream(content, path, uri, blob), _data(data, path, uri, blob)):
                self._done(blob)
                continue
            attempt = (blob.name, blob.etag)
            self._failures[attempt] = self._failures.get(attempt, 0) + 1
            if self._failures[attempt] >= self._max_attempts:
                _LOG.error(
                    "%s failed %d times for %s; the blob is not retried", self._function.name, self._max_attempts, path
                )
                await self._give_up(
                    self._function, json.dumps({"BlobName": blob.name, "ContainerName": self._container})
                )
                self._done(blob)

    def _done(self, blob: BlobProperties) -> None:
        self._handled[blob.name] = blob.etag
        self._failures.pop((blob.name, blob.etag), None)
        self._store.put_state(self._key, self._handled)


def _stream(content: bytes, path: str, uri: str, blob: BlobProperties) -> InputStream:
    return InputStream(
        data=content,
        name=path,
        uri=uri,
        length=len(content),
        blob_properties={"ContentLength": len(content), "ETag": blob.etag},
        metadata=dict(blob.metadata or {}),
    )


def _data(values: Mapping[str, str], path: str, uri: str, blob: BlobProperties) -> dict[str, Any]:
    return {**values, "BlobTrigger": path, "blobTrigger": path, "Uri": uri, "metadata": dict(blob.metadata or {})}


class BlobStorage:
    """Blob inputs and outputs."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def _open(self, binding: Binding) -> BlobServiceClient:
        connection = self._settings.connection(binding.connection, binding.service)
        return BlobServiceClient.from_connection_string(connection)

    async def read(self, binding: Binding, trigger_data: Mapping[str, Any]) -> InputStream | None:
        """Returns the blob, or `None` if it does not exist."""
        path = fill(str(binding.fields["path"]), trigger_data)
        container, name = _split(path)
        async with self._open(binding) as service:
            try:
                download = await service.get_blob_client(container, name).download_blob()
                content = await download.readall()
            except ResourceNotFoundError:
                return None
        return _stream(content, path, f"{service.url}{path}", download.properties)

    async def write(self, binding: Binding, value: Any, trigger_data: Mapping[str, Any]) -> None:
        container, name = _split(fill(str(binding.fields["path"]), trigger_data))
        content = value.read() if hasattr(value, "read") else value
        async with self._open(binding) as service:
            blob = service.get_blob_client(container, name)
            try:
                await blob.upload_blob(content, overwrite=True)
            except ResourceNotFoundError:
                with contextlib.suppress(ResourceExistsError):  # another writer may create it first
                    await service.create_container(container)
                await blob.upload_blob(content, overwrite=True)

    async def close(self) -> None:
        """Does nothing, since no connection stays open."""


def _split(path: str) -> tuple[str, str]:
    container, slash, name = path.partition("/")
    if not slash or not name:
        raise BindingError(f"the blob path {path!r} is not container/name")
    return container, name
