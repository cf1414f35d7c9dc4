"""Checks that the template sets each app setting that the app or a binding needs in Azure, and no unread setting."""

from __future__ import annotations

from infra.checks.finding import Finding
from infra.checks.snapshots import Snapshot, settings
from infra.package import host_json
from shared.settings import SETTINGS

#: settings for laptops and tests: a template must not set one
_LAPTOP = frozenset(
    {
        *("LUCIUS_SERVICEBUS_CONNECTION", "LUCIUS_TABLE_CONNECTION", "LUCIUS_BLOB_CONNECTION"),
        *("LUCIUS_APPCONFIG_CONNECTION", "LUCIUS_PROTOCOLS_PATH", "LUCIUS_TOPOLOGY_PATH"),
    }
)
#: settings without which the app does not start in Azure, or starts without tokens, metrics, identities or bounds
_NEEDED = frozenset(
    {
        "LUCIUS_SERVICEBUS_CONNECTION__fullyQualifiedNamespace",
        *("LUCIUS_SERVICEBUS_CONNECTION__credential", "LUCIUS_SERVICEBUS_CONNECTION__clientId"),
        *("LUCIUS_TABLE_ENDPOINT", "LUCIUS_BLOB_ENDPOINT", "LUCIUS_ALLOWED_REF_HOSTS", "LUCIUS_PUBLIC_URL"),
        *("LUCIUS_AUTH_MODE", "LUCIUS_AUTH_ISSUER", "LUCIUS_AUTH_AUDIENCE", "LUCIUS_AUTH_JWKS_URL"),
        *("LUCIUS_SERVICEBUS_REPLY_SUBSCRIPTION", "AZURE_CLIENT_ID", "TASKHUB_NAME"),
        *("AzureWebJobsStorage__credential", "AzureWebJobsStorage__clientId"),
        *("APPLICATIONINSIGHTS_CONNECTION_STRING", "APPLICATIONINSIGHTS_AUTHENTICATION_STRING"),
        "FUNCTIONS_REQUEST_BODY_SIZE_LIMIT",
    }
)
#: settings that a resource needs and that are useless without it, by the resource's type
_NEEDED_WITH = {
    "Microsoft.AppConfiguration/configurationStores": "LUCIUS_APPCONFIG_ENDPOINT",
    "Microsoft.DurableTask/schedulers": "DURABLE_TASK_SCHEDULER_CONNECTION_STRING",
}
_PLATFORM = frozenset(
    {
        *("AzureWebJobsStorage__accountName", "AzureWebJobsStorage__blobServiceUri"),
        *("AzureWebJobsStorage__queueServiceUri", "AzureWebJobsStorage__tableServiceUri"),
        *("PYTHON_THREADPOOL_THREAD_COUNT", "PYTHON_ENABLE_INIT_INDEXING"),
        *("PYTHON_APPLICATIONINSIGHTS_ENABLE_TELEMETRY", "OTEL_SERVICE_NAME"),
        *("OTEL_TRACES_SAMPLER", "OTEL_TRACES_SAMPLER_ARG"),
    }
)
_HOST_JSON = "AzureFunctionsJobHost__"
#: The scale controller reads these in the packaged host.json only; it does not know the values of settings.
_DURABLE = "AzureFunctionsJobHost__extensions__durableTask__"
#: settings that Flex Consumption refuses, since functionAppConfig has them
_PREMIUM_ONLY = frozenset(
    {
        *("FUNCTIONS_WORKER_RUNTIME", "FUNCTIONS_EXTENSION_VERSION"),
        *("WEBSITE_RUN_FROM_PACKAGE", "WEBSITE_RUN_FROM_PACKAGE_BLOB_MI_RESOURCE_ID"),
    }
)


def known() -> frozenset[str]:
    """Returns the settings that a template may set: settings that the app reads in Azure, and settings of the
    platform.
    """
    read = frozenset(setting.name for setting in SETTINGS) - _LAPTOP
    return read | _NEEDED | frozenset(_NEEDED_WITH.values()) | _PLATFORM | _PREMIUM_ONLY


def check(snapshot: Snapshot) -> list[Finding]:
    """Returns a finding for each setting that is not read, that is missing, or that the plan refuses.

    Each part of an identity-based connection is a separate name (`NAME__fullyQualifiedNamespace`).
    """
    needed = _NEEDED | {name for kind, name in _NEEDED_WITH.items() if snapshot.of(kind)}
    found = []
    for config in snapshot.of("Microsoft.Web/sites/config"):
        names = settings(config.get("properties")).keys()
        reasons = [reason for name in names if (reason := _wrong(name, on_flex=snapshot.on_flex)) is not None]
        reasons += [f"{name} must be set" for name in sorted(needed - names)]
        found += [snapshot.finding("app-setting", config, reason) for reason in reasons]
    return found


def _wrong(name: str, *, on_flex: bool) -> str | None:
    if name in _PREMIUM_ONLY and on_flex:
        return f"{name}: Flex Consumption refuses this setting; remove it"
    if name.lower().startswith(_DURABLE.lower()):
        return f"{name}: the scale controller reads only host.json; set durableTask there"
    if name.startswith(_HOST_JSON):
        documented = host_json.documented(tuple(name.removeprefix(_HOST_JSON).split("__")))
        return None if documented else f"{name} is not a documented key of host.json; correct the name"
    return None if name in known() else f"{name}: neither the app nor the platform reads this setting; remove it"
