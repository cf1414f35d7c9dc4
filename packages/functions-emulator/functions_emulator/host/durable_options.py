"""The options of the durable engine: `extensions.durableTask` of host.json, and a setting of the emulator."""

from __future__ import annotations

import re
from datetime import timedelta

from functions_emulator.durable.versions import STRATEGIES, Versions
from functions_emulator.durable.visibility import VisibilityTimeouts
from functions_emulator.host.errors import HostError
from functions_emulator.host.host_json import HostJson
from functions_emulator.host.settings import Settings
from functions_emulator.host.virtual_time import parse_duration

DEFAULT_VERSION = "extensions.durableTask.defaultVersion"

_VISIBILITY_TIMEOUT = "EMULATOR_VISIBILITY_TIMEOUT"
_SHORTEST = timedelta(milliseconds=100)
_HUB_NAME = re.compile(r"[A-Za-z][A-Za-z0-9]{2,49}")


def hub_name(host_json: HostJson, settings: Settings) -> str:
    """Returns the task hub. Raises `HostError` for an invalid name, such as `%NAME%` without its setting.

    Source: ValidateHubName in AzureStorageOptions.cs of the durable extension, whose error text says 45 and whose limit
    is 50.
    """
    name = settings.whole(host_json.text("extensions.durableTask.hubName", "TestHubName"))
    if not _HUB_NAME.fullmatch(name):
        raise HostError(
            f"host.json: Task hub name '{name}' should contain only alphanumeric characters, start with a letter, "
            f"and have length between 3 and 45."
        )
    return name


def versions(host_json: HostJson) -> Versions:
    """Returns the version of new orchestrations, the match strategy and the failure strategy. Raises `HostError` for an
    unknown match strategy.
    """
    key = "extensions.durableTask.versionMatchStrategy"
    # The default of Azure, which has an effect only with a version.
    strategy = host_json.text(key, "CurrentOrOlder" if DEFAULT_VERSION in host_json.values else "None")
    if strategy not in STRATEGIES:
        raise HostError(f"host.json: {key} must be one of {', '.join(STRATEGIES)}, not {strategy!r}")
    fail = host_json.text("extensions.durableTask.versionFailureStrategy", "Reject") == "Fail"
    return Versions(host_json.values.get(DEFAULT_VERSION), strategy, fail)


def poll_interval(host_json: HostJson) -> timedelta:
    """Returns the wait of `call_http` after a 202 without `Retry-After`."""
    key = "extensions.durableTask.httpSettings.defaultAsyncRequestSleepTimeMilliseconds"
    return timedelta(milliseconds=host_json.number(key, 30_000))


def replaces_running(host_json: HostJson) -> bool:
    """Returns True if a start replaces a running instance with the same id."""
    key = "extensions.durableTask.overridableExistingInstanceStates"
    return host_json.text(key, "NonRunningStates") == "AnyState"


def visibility_timeouts(host_json: HostJson, settings: Settings) -> VisibilityTimeouts:
    """Returns the timeouts of host.json, or the emulator's own setting. Raises `HostError` for invalid values.

    The limits of `controlQueueVisibilityTimeout` are those of AzureStorageOptions.Validate of the extension. The limits
    of `workItemQueueVisibilityTimeout` are those of the queue service (Get Messages of its REST API). The emulator's
    own setting is at least 100 ms, since a host writes to its store at least twice in each timeout.
    """
    provider = "extensions.durableTask.storageProvider"
    control = host_json.seconds(f"{provider}.controlQueueVisibilityTimeout", 300.0)
    if not 60 <= control <= 3600:
        raise HostError(f"host.json: {provider}.controlQueueVisibilityTimeout must be between 1 and 60 minutes")
    work_item = host_json.seconds(f"{provider}.workItemQueueVisibilityTimeout", 300.0)
    if not 1 <= work_item <= 604_800:
        raise HostError(f"host.json: {provider}.workItemQueueVisibilityTimeout must be between 1 second and 7 days")
    own = settings.get(_VISIBILITY_TIMEOUT)
    if not own:
        return VisibilityTimeouts(timedelta(seconds=control), timedelta(seconds=work_item))
    try:
        timeout = parse_duration(own)
    except ValueError as error:
        raise HostError(f"{_VISIBILITY_TIMEOUT}: {error}") from None
    if timeout < _SHORTEST:
        raise HostError(f"{_VISIBILITY_TIMEOUT} must be at least 100ms, not {own!r}")
    return VisibilityTimeouts(timeout, timeout)
