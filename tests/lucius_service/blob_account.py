"""The blob account of callers and services, for tests."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from urllib.parse import unquote

from azure.storage.blob import BlobServiceClient, generate_container_sas


class BlobAccount:
    """Uploads documents and reads artefacts."""

    def __init__(self, connection: str) -> None:
        self._client = BlobServiceClient.from_connection_string(connection)
        self.connection = connection
        self.url = self._client.url.rstrip("/")

    def close(self) -> None:
        self._client.close()

    def uri(self, container: str, name: str) -> str:
        return f"{self.url}/{container}/{name}"

    def upload(self, name: str, data: bytes) -> str:
        """Puts a document into the container of callers; returns its uri."""
        container = self._client.get_container_client("documents")
        if not container.exists():
            container.create_container()
        container.upload_blob(name, data, overwrite=True)
        return self.uri("documents", name)

    def write(self, uri: str, data: bytes) -> None:
        """Puts a blob where any service could."""
        container, name = self._place(uri)
        client = self._client.get_container_client(container)
        if not client.exists():
            client.create_container()
        client.upload_blob(name, data)

    def limited(self, container: str, permission: str) -> str:
        """Returns a connection string with rights on one container, which is created if it is missing."""
        client = self._client.get_container_client(container)
        if not client.exists():
            client.create_container()
        token = generate_container_sas(
            str(self._client.account_name),
            container,
            account_key=self._client.credential.account_key,
            permission=permission,
            expiry=datetime.now(UTC) + timedelta(hours=1),
        )
        return f"BlobEndpoint={self.url};SharedAccessSignature={token}"

    def download(self, uri: str) -> bytes:
        container, name = self._place(uri)
        return bytes(self._client.get_blob_client(container, name).download_blob().readall())

    def content_type(self, uri: str) -> str:
        container, name = self._place(uri)
        return str(self._client.get_blob_client(container, name).get_blob_properties().content_settings.content_type)

    def count(self, uri: str) -> int:
        """Returns the number of blobs whose URI begins with this."""
        name, prefix = self._place(uri)
        container = self._client.get_container_client(name)
        return len(list(container.list_blobs(prefix))) if container.exists() else 0

    def _place(self, uri: str) -> tuple[str, str]:
        container, _, name = uri.removeprefix(f"{self.url}/").partition("/")
        return container, unquote(name)
