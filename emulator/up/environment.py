"""The settings of the children of a stack.

The sources are, lowest precedence first: defaults for a local machine, the `Values` of the app's `local.settings.json`,
this stack's own URLs, and the environment of the caller. So an old URL in the file cannot connect two stacks. The
caller can set another URL for the children, such as the URL of a proxy.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from emulator.up.errors import UpError
from emulator.up.ports import LOOPBACK, Ports

#: Azurite's development account, the same on every machine and public
#: (https://learn.microsoft.com/azure/storage/common/storage-connect-azurite).
ACCOUNT = "devstoreaccount1"
_ACCOUNT_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="

#: `aud` of the tokens of the stack's own issuer
AUDIENCE = "api://lucius"

_DEFAULTS = {
    "TASKHUB_NAME": "lucius",
    "LUCIUS_STORAGE_BACKEND": "tables",
    "LUCIUS_AUTH_MODE": "none",
    # the webhook endpoints of a laptop are on that laptop
    "LUCIUS_WEBHOOK_HOSTS": "127.0.0.1:*,localhost:*",
    # With Azure Storage the messages of a killed host become visible after a minute, too long for a laptop.
    "EMULATOR_VISIBILITY_TIMEOUT": "5s",
}
#: short intervals, so that a developer sees traces of running work
_TRACED = {
    "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
    "OTEL_BSP_SCHEDULE_DELAY": "500",
    "OTEL_METRIC_EXPORT_INTERVAL": "5000",
}


def addresses(ports: Ports) -> dict[str, str]:
    """Returns the settings with the URLs of this stack."""
    storage = (
        f"DefaultEndpointsProtocol=http;AccountName={ACCOUNT};AccountKey={_ACCOUNT_KEY};"
        f"BlobEndpoint={blob_endpoint(ports)};"
        f"QueueEndpoint=http://{LOOPBACK}:{ports.queue}/{ACCOUNT};"
        f"TableEndpoint={table_endpoint(ports)};"
    )
    telemetry = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://{LOOPBACK}:{ports.traces}"} if ports.traces else {}
    auth = {}
    if ports.issuer:
        issuer = issuer_url(ports)
        auth = {
            "LUCIUS_AUTH_MODE": "jwt",
            "LUCIUS_AUTH_ISSUER": issuer,
            "LUCIUS_AUTH_AUDIENCE": AUDIENCE,
            "LUCIUS_AUTH_JWKS_URL": f"{issuer}/keys",
            "LUCIUS_DASHBOARD_CLIENT_ID": "lucius-dashboard",
        }
    return {
        **telemetry,
        **auth,
        "LUCIUS_PUBLIC_URL": f"http://{LOOPBACK}:{ports.api}",
        "AzureWebJobsStorage": storage,
        "LUCIUS_BLOB_CONNECTION": storage,
        "LUCIUS_TABLE_CONNECTION": storage,
        "LUCIUS_SERVICEBUS_CONNECTION": (
            f"Endpoint=sb://{LOOPBACK}:{ports.bus};SharedAccessKeyName=RootManageSharedAccessKey;"
            "SharedAccessKey=SAS_KEY_VALUE;UseDevelopmentEmulator=true;"
        ),
        "LUCIUS_SERVICEBUS_ADMIN_URL": f"http://{LOOPBACK}:{ports.admin}",
    }


def issuer_url(ports: Ports) -> str:
    return f"http://{LOOPBACK}:{ports.issuer}"


def blob_endpoint(ports: Ports) -> str:
    return f"http://{LOOPBACK}:{ports.blob}/{ACCOUNT}"


def table_endpoint(ports: Ports) -> str:
    return f"http://{LOOPBACK}:{ports.table}/{ACCOUNT}"


def for_children(ports: Ports, app: Path, caller: Mapping[str, str]) -> dict[str, str]:
    """Returns the environment of the children. `caller` is the environment of this process. Raises UpError as
    `local_settings` does.
    """
    tracing = _TRACED if ports.traces else {}
    settings = {**_DEFAULTS, **tracing, **local_settings(app / "local.settings.json"), **addresses(ports)}
    # unbuffered, so that a log line is in its file if its writer is killed
    return {**settings, "PYTHONUNBUFFERED": "1", **caller}


def local_settings(path: Path) -> dict[str, str]:
    """Returns `Values` of a Core Tools settings file, or {} if the file is missing.

    Raises UpError if the file is unreadable, invalid or encrypted.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise UpError(f"cannot read {path}: {error}") from error
    values = document.get("Values", {}) if isinstance(document, dict) else None
    if not isinstance(values, dict):
        raise UpError(f'{path} must have {{"IsEncrypted": false, "Values": {{"NAME": "value"}}}}')
    if document.get("IsEncrypted"):
        raise UpError(f"{path} is encrypted; run `func settings decrypt` first")
    return {name: value if isinstance(value, str) else json.dumps(value) for name, value in values.items()}
