"""Identity-based connections: `NAME__fullyQualifiedNamespace`, `NAME__blobServiceUri` and others.

A managed identity needs Azure. A connection to an emulator on this machine becomes the connection string of the
emulators' development account. Other connections are errors. Source: AzureComponentFactory and the client providers of
the Service Bus and Storage extensions.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from functions_emulator.host.errors import BindingError

_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})

#: development account of Azurite, which Microsoft publishes; it is not a secret
_ACCOUNT = "devstoreaccount1"
_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="

#: properties that an extension reads for a storage service, in its order
_STORAGE = {
    "blob": ("blobserviceuri", "serviceuri", "accountname"),
    "queue": ("queueserviceuri", "serviceuri", "accountname"),
    "table": ("tableserviceuri", "endpoint", "serviceuri", "accountname"),
}


def connection_by_identity(name: str, properties: Mapping[str, str], service: str) -> str:
    """Returns a connection string for `service`: `serviceBus`, `blob`, `queue` or `table`.

    `properties` are the settings `NAME__property`, with property names in lower case. Raises `BindingError` if the
    properties do not name an emulator on this machine.
    """
    if service == "serviceBus":
        return _service_bus(name, properties)
    for property_name in _STORAGE[service]:
        value = properties.get(property_name)
        if value and property_name == "accountname":
            raise BindingError(_needs_azure(name, f"the account {value!r}"))
        if value:
            return _storage(name, value, service)
    raise BindingError(
        f"the connection {name!r} is identity-based but for another service: "
        f"set {name}__{service}ServiceUri, or {name} to a connection string"
    )


def _service_bus(name: str, properties: Mapping[str, str]) -> str:
    namespace = properties.get("fullyqualifiednamespace")
    if not namespace:
        raise BindingError(
            f"the connection {name!r} is identity-based but not for Service Bus: "
            f"set {name}__fullyQualifiedNamespace, or {name} to a connection string"
        )
    if urlsplit(f"//{namespace}").hostname not in _LOOPBACK:
        raise BindingError(_needs_azure(name, namespace))
    return (
        f"Endpoint=sb://{namespace};SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey=SAS_KEY_VALUE;"
        "UseDevelopmentEmulator=true;"
    )


def _storage(name: str, uri: str, service: str) -> str:
    parts = urlsplit(uri)
    if parts.hostname not in _LOOPBACK:
        raise BindingError(_needs_azure(name, uri))
    account = parts.path.strip("/") or _ACCOUNT
    endpoint = f"{parts.scheme}://{parts.netloc}/{account}"
    return (
        f"DefaultEndpointsProtocol={parts.scheme};AccountName={account};AccountKey={_KEY};"
        f"{service.capitalize()}Endpoint={endpoint};"
    )


def _needs_azure(name: str, what: str) -> str:
    return (
        f"the connection {name!r} is identity-based to {what}, which needs Azure: "
        f"set {name} to a connection string, or its endpoint to an emulator on this machine"
    )
