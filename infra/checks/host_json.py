"""`host.json`: documented keys, kinds of values, and for each durable backend a file of its own."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from infra.checks.durable_backend import HOST_JSON
from infra.checks.finding import Finding

_DURABLE = ("extensions", "durableTask")
#: what the scale controller must read in the file, by the template's backend
_PROVIDERS = {
    "DurableTaskScheduler": {
        "type": "azureManaged",
        "connectionStringName": "DURABLE_TASK_SCHEDULER_CONNECTION_STRING",
    },
    "AzureStorage": {"type": "AzureStorage", "connectionName": "AzureWebJobsStorage"},
}
#: an idle hub is looked at this often; the default of 30 s is the latency of every timer and event
_POLL_S = (1, 2)

#: documented keys; `*` stands for free names (https://learn.microsoft.com/azure/azure-functions/functions-host-json and
#: the pages of the extensions that it names)
_DOCUMENTED = (
    "version",
    "functionTimeout",
    "telemetryMode",
    "watchDirectories",
    "watchFiles",
    "singleton.*",
    "logging.fileLoggingMode",
    "logging.logLevel.*",
    "logging.console.*",
    "logging.applicationInsights.*",
    "extensionBundle.id",
    "extensionBundle.version",
    "concurrency.dynamicConcurrencyEnabled",
    "concurrency.snapshotPersistenceEnabled",
    "aggregator.*",
    "healthMonitor.*",
    "functions",
    "managedDependency.enabled",
    "retry.*",
    "extensions.http.routePrefix",
    "extensions.http.maxConcurrentRequests",
    "extensions.http.maxOutstandingRequests",
    "extensions.http.dynamicThrottlesEnabled",
    "extensions.http.hsts.*",
    "extensions.http.customHeaders.*",
    "extensions.serviceBus.prefetchCount",
    "extensions.serviceBus.autoCompleteMessages",
    "extensions.serviceBus.maxConcurrentCalls",
    "extensions.serviceBus.maxConcurrentSessions",
    "extensions.serviceBus.maxMessageBatchSize",
    "extensions.serviceBus.minMessageBatchSize",
    "extensions.serviceBus.maxBatchWaitTime",
    "extensions.serviceBus.sessionIdleTimeout",
    "extensions.serviceBus.enableCrossEntityTransactions",
    "extensions.serviceBus.maxAutoLockRenewalDuration",
    "extensions.serviceBus.transportType",
    "extensions.serviceBus.clientRetryOptions.*",
    "extensions.durableTask.hubName",
    "extensions.durableTask.defaultVersion",
    "extensions.durableTask.versionMatchStrategy",
    "extensions.durableTask.versionFailureStrategy",
    "extensions.durableTask.storageProvider.*",
    "extensions.durableTask.tracing.*",
    "extensions.durableTask.notifications.*",
    "extensions.durableTask.maxConcurrentActivityFunctions",
    "extensions.durableTask.maxConcurrentOrchestratorFunctions",
    "extensions.durableTask.maxConcurrentEntityFunctions",
    "extensions.durableTask.extendedSessionsEnabled",
    "extensions.durableTask.extendedSessionIdleTimeoutInSeconds",
    "extensions.durableTask.useGracefulShutdown",
    "extensions.durableTask.maxEntityOperationBatchSize",
    "extensions.durableTask.maxOrchestrationActions",
    "extensions.durableTask.overridableExistingInstanceStates",
    "extensions.durableTask.storeInputsInOrchestrationHistory",
    "extensions.durableTask.httpSettings.*",
    "extensions.queues.*",
    "extensions.blobs.*",
)
_LOG_LEVEL = ("logging", "logLevel")
#: of Microsoft.Extensions.Logging, in the order of what they let through
_LEVELS = ("Trace", "Debug", "Information", "Warning", "Error", "Critical", "None")
#: categories with INFO lines for each request, message or work item: `default` shows them, and Azure bills them
#: (Azure/azure-functions-host#8973, Azure/azure-functions-durable-extension#1497). At Error those whose warnings come
#: with nearly every job and need no operator: docs/observability.md, "Log levels"
_QUIET = {
    "Azure.Core": "Error",
    "Azure.Messaging.ServiceBus": "Warning",
    "DurableTask.AzureStorage": "Error",
    "DurableTask.Core": "Warning",
    "Host.Triggers.DurableTask": "Warning",
}

_Kind = Callable[[Any], bool]


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _flag(value: Any) -> bool:
    return isinstance(value, bool)


def _span(value: Any) -> bool:
    """A .NET TimeSpan, `[d.]hh:mm:ss`, or -1."""
    return value in ("-1", -1) or (
        isinstance(value, str) and re.fullmatch(r"(\d+\.)?([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d+)?", value) is not None
    )


def _one_of(*values: str) -> _Kind:
    return lambda value: value in values


#: values of other kinds stop the host at its start, or mean something else
_KINDS: dict[str, tuple[_Kind, str]] = {
    "version": (_one_of("2.0"), "2.0"),
    "functionTimeout": (_span, "a time span"),
    "telemetryMode": (_one_of("OpenTelemetry"), "OpenTelemetry"),
    "extensionBundle.id": (_one_of("Microsoft.Azure.Functions.ExtensionBundle"), "the bundle of releases"),
    "extensionBundle.version": (_one_of("[4.*, 5.0.0)", "[4.0.0, 5.0.0)"), "[4.0.0, 5.0.0)"),
    "extensions.http.maxConcurrentRequests": (_whole, "a whole number"),
    "extensions.http.maxOutstandingRequests": (_whole, "a whole number"),
    "extensions.http.dynamicThrottlesEnabled": (_flag, "true or false"),
    "extensions.serviceBus.prefetchCount": (_whole, "a whole number"),
    "extensions.serviceBus.autoCompleteMessages": (_flag, "true or false"),
    "extensions.serviceBus.maxConcurrentCalls": (_whole, "a whole number"),
    "extensions.serviceBus.maxConcurrentSessions": (_whole, "a whole number"),
    "extensions.serviceBus.maxMessageBatchSize": (_whole, "a whole number"),
    "extensions.serviceBus.maxAutoLockRenewalDuration": (_span, "a time span"),
    "extensions.serviceBus.sessionIdleTimeout": (_span, "a time span"),
    "extensions.durableTask.versionMatchStrategy": (
        _one_of("None", "Strict", "CurrentOrOlder"),
        "None, Strict or CurrentOrOlder",
    ),
    "extensions.durableTask.overridableExistingInstanceStates": (
        _one_of("NonRunningStates", "AnyState"),
        "NonRunningStates or AnyState",
    ),
    "extensions.durableTask.maxConcurrentActivityFunctions": (_whole, "a whole number"),
    "extensions.durableTask.maxConcurrentOrchestratorFunctions": (_whole, "a whole number"),
    "extensions.durableTask.storageProvider.partitionCount": (
        lambda value: _whole(value) and 1 <= value <= 16,
        "1 to 16",
    ),
    "extensions.durableTask.storageProvider.maxQueuePollingInterval": (_span, "a time span"),
}


def check(path: Path) -> list[Finding]:
    """Keys that are not documented (`*` in the list stands for free names), and values of another kind."""
    try:
        content = json.loads(path.read_text())
    except ValueError as error:
        return [Finding(path, getattr(error, "lineno", 0), "host-json", f"is not JSON: {error}")]
    found = []
    for key, value in _leaves(content):
        name = ".".join(key)
        if not documented(key):
            found.append(Finding(path, 0, "host-json", f"{name} is not a documented key"))
        elif name in _KINDS and not _KINDS[name][0](value):
            found.append(Finding(path, 0, "host-json", f"{name} is {value!r}, not {_KINDS[name][1]}"))
        elif key[:2] == _LOG_LEVEL and value not in _LEVELS:
            found.append(Finding(path, 0, "host-json", f"{name} is {value!r}, not one of {', '.join(_LEVELS)}"))
    return found


def check_backends(root: Path) -> list[Finding]:
    """Each backend has its file, with what the scale controller reads; the files differ in nothing else."""
    found, others = [], {}
    for backend, name in HOST_JSON.items():
        path = root / name
        if not path.exists():
            found.append(Finding(path, 0, "host-json", f"is missing: the package of {backend} has no host.json"))
            continue
        found += check(path)
        if found:
            continue
        content = json.loads(path.read_text())
        durable = content[_DURABLE[0]][_DURABLE[1]]
        provider = durable.pop("storageProvider", {})
        wrong = [
            f"storageProvider.{key} is not {value}"
            for key, value in _PROVIDERS[backend].items()
            if provider.get(key) != value
        ]
        if durable.get("hubName") != "%TASKHUB_NAME%":
            wrong.append("hubName is not %TASKHUB_NAME%, the setting of the template")
        if (
            backend == "AzureStorage"
            and not _POLL_S[0] <= _seconds(provider.get("maxQueuePollingInterval")) <= _POLL_S[1]
        ):
            wrong.append("storageProvider.maxQueuePollingInterval is not 1 to 2 s")
        shown = content.get(_LOG_LEVEL[0], {}).get(_LOG_LEVEL[1], {})
        wrong += [
            f"logging.logLevel.{category} is not {level}: its lines would flood the log"
            for category, level in _QUIET.items()
            if category not in shown or _LEVELS.index(shown[category]) < _LEVELS.index(level)
        ]
        found += [Finding(path, 0, "host-json", each) for each in wrong]
        others[name] = content
    if len(others) == len(HOST_JSON) and len({json.dumps(each, sort_keys=True) for each in others.values()}) > 1:
        found.append(
            Finding(root / "host.json", 0, "host-json", f"{' and '.join(others)} differ beyond storageProvider")
        )
    return found


def documented(key: tuple[str, ...]) -> bool:
    """Whether a key's path is in the list; app settings (`AzureFunctionsJobHost__a__b`) name the same keys."""
    return any(_matches(key, tuple(each.split("."))) for each in _DOCUMENTED)


def _seconds(value: Any) -> float:
    if not isinstance(value, str) or not _span(value):
        return 30
    hours, minutes, seconds = value.split(":")
    return float(hours) * 3600 + float(minutes) * 60 + float(seconds)


def _leaves(value: Any, before: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Paths of the leaves, with their values."""
    if not isinstance(value, dict):
        yield before, value
        return
    for name, each in value.items():
        yield from _leaves(each, (*before, name))


def _matches(key: tuple[str, ...], known: tuple[str, ...]) -> bool:
    if known and known[-1] == "*":
        return key[: len(known) - 1] == known[:-1] and len(key) >= len(known)
    return key == known
