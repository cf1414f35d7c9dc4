"""The blob account in a verification: contents, and blobs written since the start. The methods are synchronous, for
worker threads.
"""

from __future__ import annotations

from contextlib import suppress
from urllib.parse import unquote

from azure.core.exceptions import HttpResponseError, ResourceExistsError, ResourceNotFoundError
from azure.storage.blob import BlobServiceClient, LinearRetry

#: names of the containers in the contract
_CONTAINERS = ("workspace", "results")


class Blobs:
    """The account that the service uses."""

    def __init__(self, connection: str) -> None:
        """Connects without a request. Raises ValueError for a malformed connection string."""
        self._service = BlobServiceClient.from_connection_string(
            connection, retry_policy=LinearRetry(backoff=1, retry_total=1), connection_timeout=5, read_timeout=10
        )
        #: URL of the account, without a slash at its end
        self.url = str(self._service.url).rstrip("/")
        self._known: set[tuple[str, str]] = set()

    def close(self) -> None:
        """Closes the connections."""
        self._service.close()

    def make_containers(self) -> None:
        """Creates missing containers of the contract. Raises AzureError."""
        for container in _CONTAINERS:
            with suppress(ResourceExistsError):
                self._service.create_container(container)

    def content(self, uri: str) -> bytes | None:
        """Returns the content of a blob, or None if the blob does not exist in the account."""
        container, _, name = unquote(uri.removeprefix(f"{self.url}/")).partition("/")
        if not uri.startswith(f"{self.url}/") or not name:
            return None
        try:
            return bytes(self._service.get_blob_client(container, name).download_blob().readall())
        except ResourceNotFoundError:
            return None

    def remember(self) -> None:
        """Records the existing blobs with their ETags. Times are not compared, since clocks differ."""
        self._known = self._listed()

    def written(self) -> list[str]:
        """Returns `container/name` of the blobs written since `remember`, in all containers that can be listed."""
        return sorted(name for name, _ in self._listed() - self._known)

    @property
    def lists_containers(self) -> bool:
        """Returns True if the connection can list the containers of the account. Otherwise only the contract's
        containers are searched.
        """
        try:
            next(self._service.list_containers(results_per_page=1).by_page(), None)
        except HttpResponseError as error:
            if error.status_code in (401, 403):
                return False
            raise
        return True

    def _listed(self) -> set[tuple[str, str]]:
        """Returns `container/name` and ETag of each blob."""
        everywhere = self.lists_containers
        containers = [each.name for each in self._service.list_containers()] if everywhere else _CONTAINERS
        return {
            (f"{container}/{blob.name}", str(blob.etag))
            for container in containers
            for blob in self._service.get_container_client(container).list_blobs()
        }
