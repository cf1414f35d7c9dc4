"""Reads `host.json`, and finds the keys that have no effect in the emulator."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from functions_emulator.durable.clock import parse_time_span
from functions_emulator.host.errors import HostError

#: seconds that Azure's load balancer allows for an HTTP response
HTTP_LIMIT_S = 230.0

#: keys that the host reads; a parent includes its children. Other keys, except `_AZURE_ONLY`, are named in a warning
_SUPPORTED = {
    "version",
    "extensions.http.routePrefix",
    "extensions.http.maxConcurrentRequests",
    "extensions.http.maxOutstandingRequests",
    "extensions.http.customHeaders",
    "extensions.serviceBus.maxConcurrentCalls",
    "extensions.serviceBus.maxConcurrentSessions",
    "extensions.serviceBus.maxAutoLockRenewalDuration",
    "extensions.serviceBus.prefetchCount",
    "extensions.serviceBus.autoCompleteMessages",
    "extensions.serviceBus.maxMessageBatchSize",
    "extensions.serviceBus.sessionIdleTimeout",
    "extensions.queues.maxPollingInterval",
    "extensions.queues.visibilityTimeout",
    "extensions.queues.batchSize",
    "extensions.queues.maxDequeueCount",
    "extensions.queues.messageEncoding",
    "extensions.blobs.poisonBlobThreshold",
    "extensions.durableTask.hubName",
    "extensions.durableTask.maxConcurrentActivityFunctions",
    "extensions.durableTask.maxConcurrentOrchestratorFunctions",
    "extensions.durableTask.maxConcurrentEntityFunctions",
    "extensions.durableTask.maxEntityOperationBatchSize",
    "extensions.durableTask.defaultVersion",
    "extensions.durableTask.versionMatchStrategy",
    "extensions.durableTask.versionFailureStrategy",
    "extensions.durableTask.overridableExistingInstanceStates",
    "extensions.durableTask.storageProvider.controlQueueVisibilityTimeout",
    "extensions.durableTask.storageProvider.workItemQueueVisibilityTimeout",
    "extensions.durableTask.httpSettings.defaultAsyncRequestSleepTimeMilliseconds",
    "functionTimeout",
}

#: keys that have an effect on Azure only, with some that the host reads; there is no warning for them
_AZURE_ONLY = {
    "extensionBundle",
    "extensions.durableTask.storageProvider",
    "extensions.durableTask.tracing",
    "extensions.durableTask.extendedSessionsEnabled",
    "extensions.durableTask.useGracefulShutdown",
    "extensions.serviceBus.clientRetryOptions",
    "logging",  # the host reads only `logLevel` of it
    "telemetryMode",
    "concurrency",
    "aggregator",
    "healthMonitor",
    "$schema",
}


@dataclass(frozen=True, slots=True)
class HostJson:
    """The values of host.json by dotted key. `number`, `flag` and `seconds` raise `HostError` for a value of a wrong
    type.
    """

    values: Mapping[str, Any] = field(default_factory=dict)

    def text(self, key: str, default: str) -> str:
        return str(self.values.get(key, default))

    def number(self, key: str, default: int) -> int:
        value = self.values.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int):
            raise HostError(f"host.json: {key} must be a whole number, not {value!r}")
        return value

    def flag(self, key: str, default: bool) -> bool:
        value = self.values.get(key, default)
        if not isinstance(value, bool):
            raise HostError(f"host.json: {key} must be true or false, not {value!r}")
        return value

    def seconds(self, key: str, default: float) -> float:
        """Returns a .NET TimeSpan in seconds. `-1` means no limit and returns infinity."""
        if key not in self.values:
            return default
        return parse_timespan(self.values[key], f"host.json: {key}")

    def mapping(self, key: str) -> dict[str, str]:
        """Returns the fields of an object, as texts by name."""
        prefix = f"{key}."
        return {name[len(prefix) :]: str(value) for name, value in self.values.items() if name.startswith(prefix)}

    @property
    def unknown_keys(self) -> list[str]:
        """Returns the sorted keys without an effect in the emulator, except known keys that are for Azure only."""
        keys = _SUPPORTED | _AZURE_ONLY
        return sorted(key for key in self.values if not any(key == one or key.startswith(one + ".") for one in keys))


def load_host_json(app_dir: Path) -> HostJson:
    """Reads the file. Raises `HostError` if the file is missing or invalid."""
    path = app_dir / "host.json"
    if not path.exists():
        raise HostError(f"{path} is missing: is {app_dir} a function app?")
    try:
        document = json.loads(path.read_text("utf-8-sig"))
        if document["version"] != "2.0":
            raise HostError(f'{path}: "version" must be "2.0"')
    except (ValueError, KeyError, TypeError) as error:
        raise HostError(f"{path}: not a valid host.json: {error!r}") from None
    return HostJson(dict(_flatten("", document)))


def _flatten(prefix: str, value: Any) -> list[tuple[str, Any]]:
    if isinstance(value, dict):
        return [item for key, child in value.items() for item in _flatten(f"{prefix}.{key}".lstrip("."), child)]
    return [(prefix, value)]


def parse_timespan(text: object, where: str) -> float:
    """Returns seconds of `[d.]hh:mm:ss[.fffffff]`. `-1` is infinity. Raises `HostError`, which names `where`."""
    if text == "-1":
        return float("inf")
    try:
        return parse_time_span(str(text)).total_seconds()
    except ValueError:
        raise HostError(f"{where} must be a time span like 00:05:00, not {text!r}") from None
