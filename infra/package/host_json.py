"""Checks `host.json`: documented keys, kinds of values, and a separate file for each durable backend."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from infra.checks.finding import Finding
from infra.package.durable_backend import HOST_JSON

_DURABLE = ("extensions", "durableTask")
#: values that the scale controller must read in the file, by the template's backend
_PROVIDERS = {
    "DurableTaskScheduler": {
        "type": "azureManaged",
        "connectionStringName": "DURABLE_TASK_SCHEDULER_CONNECTION_STRING",
    },
    "AzureStorage": {"type": "AzureStorage", "connectionName": "AzureWebJobsStorage"},
}
#: minimum and maximum of options of the Azure Storage backend, in seconds
_PROVIDER_S = {
    # seconds between two reads of an idle hub; the default of 30 s would delay every timer and event
    "maxQueuePollingInterval": (1, 2),
    # seconds for which the work of a killed instance stays hidden:
    # docs/decisions/0057-a-killed-instance-costs-a-minute.md
    "controlQueueVisibilityTimeout": (60, 60),
    "workItemQueueVisibilityTimeout": (60, 60),
}

_LOG_LEVEL = ("logging", "logLevel")
#: levels of Microsoft.Extensions.Logging, lowest first
_LEVELS = ("Trace", "Debug", "Information", "Warning", "Error", "Critical", "None")
#: categories with INFO lines for each request, message or work item: `default` shows them, and Azure bills them
#: (Azure/azure-functions-host#8973, Azure/azure-functions-durable-extension#1497). Level Error: categories whose
#: warnings occur with nearly every job and need no operator: docs/reference/observability.md, "Log levels"
_QUIET = {
    "Azure.Core": "Error",
    "Azure.Messaging.ServiceBus": "Warning",
    "DurableTask.AzureStorage": "Error",
    "DurableTask.Core": "Warning",
    "Host.Triggers.DurableTask": "Warning",
}
#: beginnings of the names of the functions that a job executes. For each execution the host writes two records or three
#: of the category `Function.NAME`. The host's own rule for `Function.*` exports these records
#: (OpenTelemetryConfigurationExtensions.cs). Only a longer category of the provider `OpenTelemetry` overrides the rule
#: (LoggerRuleSelector.cs of .NET)
_EXECUTED = ("orchestrate", "job", "step", "dispatch", "settle", "replies", "reply_p", "admission", "tell", "deliver")
#: `Function.NAME.User` are the records of the app; `*` makes this rule the longer one for other functions whose names
#: begin with NAME
_EXPORTED = {
    "logLevel": {
        f"Function.{name}{of}": level
        for name in _EXECUTED
        for of, level in (("", "Warning"), ("*.User", "Information"))
    }
}

_Kind = tuple[Callable[[Any], bool], str]


def _span(value: Any) -> bool:
    """Returns `True` if the value is a .NET TimeSpan, `[d.]hh:mm:ss`, or -1."""
    return value in ("-1", -1) or (
        isinstance(value, str) and re.fullmatch(r"(\d+\.)?([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d+)?", value) is not None
    )


def _one_of(*values: str) -> _Kind:
    return lambda value: value in values, " or ".join(values)


def _number(least: float = 0, most: float = math.inf) -> _Kind:
    shown = f"{least} to {most}" if most < math.inf else "a whole number"
    return lambda value: type(value) is int and least <= value <= most, shown


_SPAN: _Kind = (_span, "a time span")
_FLAG: _Kind = (lambda value: isinstance(value, bool), "true or false")
_ANY: _Kind = (lambda value: True, "")
#: documented keys with their values. Other values stop the host at its start or mean something else. `*` stands for
#: free names (https://learn.microsoft.com/azure/azure-functions/functions-host-json, and the pages of the extensions)
_KEYS: dict[str, _Kind] = {
    "version": _one_of("2.0"),
    "functionTimeout": _SPAN,
    "telemetryMode": _one_of("OpenTelemetry"),
    "extensionBundle.id": _one_of("Microsoft.Azure.Functions.ExtensionBundle"),
    "extensionBundle.version": _one_of("[4.*, 5.0.0)", "[4.0.0, 5.0.0)"),
    **dict.fromkeys(("watchDirectories", "watchFiles", "singleton.*", "aggregator.*", "healthMonitor.*"), _ANY),
    **dict.fromkeys(("functions", "managedDependency.enabled", "retry.*"), _ANY),
    **dict.fromkeys((f"logging.{each}" for each in ("fileLoggingMode", "console.*", "applicationInsights.*")), _ANY),
    **dict.fromkeys(("logging.logLevel.*", "logging.OpenTelemetry.logLevel.*"), _one_of(*_LEVELS)),
    **dict.fromkeys(("concurrency.dynamicConcurrencyEnabled", "concurrency.snapshotPersistenceEnabled"), _FLAG),
    **dict.fromkeys(("extensions.queues.*", "extensions.blobs.*", "extensions.http.routePrefix"), _ANY),
    **dict.fromkeys(("extensions.http.hsts.*", "extensions.http.customHeaders.*"), _ANY),
    **dict.fromkeys(("extensions.http.maxConcurrentRequests", "extensions.http.maxOutstandingRequests"), _number()),
    "extensions.http.dynamicThrottlesEnabled": _FLAG,
    **{
        f"extensions.serviceBus.{name}": kind
        for kind, names in (
            (_number(), ("prefetchCount", "maxConcurrentCalls", "maxConcurrentSessions")),
            (_number(), ("maxMessageBatchSize", "minMessageBatchSize")),
            (_FLAG, ("autoCompleteMessages", "enableCrossEntityTransactions")),
            (_SPAN, ("maxBatchWaitTime", "sessionIdleTimeout", "maxAutoLockRenewalDuration")),
            (_ANY, ("transportType", "clientRetryOptions.*")),
        )
        for name in names
    },
    **{
        f"extensions.durableTask.{name}": kind
        for kind, names in (
            (_number(1, 16), ("storageProvider.partitionCount",)),
            (_SPAN, tuple(f"storageProvider.{key}" for key in _PROVIDER_S)),
            (_ANY, ("hubName", "defaultVersion", "versionFailureStrategy", "storageProvider.*", "tracing.*")),
            (_one_of("None", "Strict", "CurrentOrOlder"), ("versionMatchStrategy",)),
            (_number(), ("maxConcurrentActivityFunctions", "maxConcurrentOrchestratorFunctions")),
            (_number(), ("maxConcurrentEntityFunctions", "maxEntityOperationBatchSize", "maxOrchestrationActions")),
            (_number(), ("extendedSessionIdleTimeoutInSeconds",)),
            (_FLAG, ("extendedSessionsEnabled", "useGracefulShutdown", "storeInputsInOrchestrationHistory")),
            (_one_of("NonRunningStates", "AnyState"), ("overridableExistingInstanceStates",)),
            (_ANY, ("notifications.*", "httpSettings.*")),
        )
        for name in names
    },
}


def check(path: Path) -> list[Finding]:
    """Returns findings for invalid JSON, for keys that are not documented, and for values of another kind."""
    try:
        content = json.loads(path.read_text())
    except ValueError as error:
        return [Finding(path, getattr(error, "lineno", 0), "host-json", f"is not JSON: {error}")]
    found = []
    for key, value in _leaves(content):
        name = ".".join(key)
        kind = _kind(key)
        if kind is None:
            found.append(Finding(path, 0, "host-json", f"{name} is not a documented key"))
        elif not kind[0](value):
            found.append(Finding(path, 0, "host-json", f"{name} is {value!r}, not {kind[1]}"))
    return found


def check_backends(root: Path) -> list[Finding]:
    """Checks that each backend has its file, with the scale controller's values and the log levels. Except for
    `storageProvider`, the files must be equal.
    """
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
            f"storageProvider.{key} must be {value}"
            for key, value in _PROVIDERS[backend].items()
            if provider.get(key) != value
        ]
        if durable.get("hubName") != "%TASKHUB_NAME%":
            wrong.append("hubName must be %TASKHUB_NAME%, the setting of the template")
        if backend == "AzureStorage":
            wrong += [
                f"storageProvider.{key} must be {least if least == most else f'{least} to {most}'} s"
                for key, (least, most) in _PROVIDER_S.items()
                if not least <= _seconds(provider.get(key)) <= most
            ]
        shown = content.get(_LOG_LEVEL[0], {}).get(_LOG_LEVEL[1], {})
        wrong += [
            f"logging.logLevel.{category} must be {level} or higher, because the records of lower levels fill the log"
            for category, level in _QUIET.items()
            if category not in shown or _LEVELS.index(shown[category]) < _LEVELS.index(level)
        ]
        if content.get(_LOG_LEVEL[0], {}).get("OpenTelemetry") != _EXPORTED:
            wrong.append(
                f"logging.OpenTelemetry must be {json.dumps(_EXPORTED)}, because records of executions fill the log"
            )
        found += [Finding(path, 0, "host-json", each) for each in wrong]
        others[name] = content
    if len(others) == len(HOST_JSON) and len({json.dumps(each, sort_keys=True) for each in others.values()}) > 1:
        found.append(
            Finding(root / "host.json", 0, "host-json", f"{' and '.join(others)} must be equal except storageProvider")
        )
    return found


def documented(key: tuple[str, ...]) -> bool:
    """Returns `True` if a key's path is in the list. App settings (`AzureFunctionsJobHost__a__b`) name the same
    keys.
    """
    return _kind(key) is not None


def _kind(key: tuple[str, ...]) -> _Kind | None:
    """Returns the values of a documented key. The entry with the longest matching path counts."""
    found = [each for each in _KEYS if _matches(key, tuple(each.split(".")))]
    return _KEYS[max(found, key=len)] if found else None


def _seconds(value: Any) -> float:
    if not isinstance(value, str) or not _span(value):
        return 30
    hours, minutes, seconds = value.split(":")
    return float(hours) * 3600 + float(minutes) * 60 + float(seconds)


def _leaves(value: Any, before: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yields the paths of the leaves, with their values."""
    if not isinstance(value, dict):
        yield before, value
        return
    for name, each in value.items():
        yield from _leaves(each, (*before, name))


def _matches(key: tuple[str, ...], known: tuple[str, ...]) -> bool:
    if known and known[-1] == "*":
        return key[: len(known) - 1] == known[:-1] and len(key) >= len(known)
    return key == known
