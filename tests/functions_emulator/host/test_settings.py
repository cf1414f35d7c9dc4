"""The connections of bindings, and local.settings.json."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest

from functions_emulator.durable.visibility import VisibilityTimeouts
from functions_emulator.host.durable_options import hub_name, visibility_timeouts
from functions_emulator.host.errors import BindingError, HostError
from functions_emulator.host.host_json import HostJson
from functions_emulator.host.settings import Settings, load_settings

BUS = "Endpoint=sb://x"
_PROVIDER = "extensions.durableTask.storageProvider"


@pytest.mark.parametrize(
    "values",
    [
        {"BUS": BUS},
        {"AzureWebJobsBUS": BUS, "BUS": "the prefix goes first"},
        {"ConnectionStrings:BUS": BUS, "BUS": "connection strings go before settings"},
        {"ConnectionStrings__BUS": BUS},
        {"AzureWebJobsBUS": BUS, "ConnectionStrings:BUS": "the prefix goes before both"},
    ],
)
def test_a_connection_is_looked_up_as_the_webjobs_sdk_does(values: dict[str, str]) -> None:
    """With the prefix first; connection strings before settings."""
    assert Settings(values).connection("BUS", "serviceBus") == BUS


def test_a_namespace_on_this_machine_is_the_emulator() -> None:
    """Property names may have any case; credential and clientId have no effect."""
    values = {
        "BUS__fullyqualifiednamespace": "localhost:5673",
        "BUS__credential": "managedidentity",
        "BUS__clientId": "1",
    }
    connection = Settings(values).connection("BUS", "serviceBus")
    assert connection.startswith("Endpoint=sb://localhost:5673;")
    assert "UseDevelopmentEmulator=true" in connection


@pytest.mark.parametrize(
    ("properties", "service", "endpoint"),
    [
        ({"blobServiceUri": "http://127.0.0.1:10000/devstoreaccount1"}, "blob", "BlobEndpoint=http://127.0.0.1:10000/"),
        ({"serviceUri": "http://127.0.0.1:10001/devstoreaccount1"}, "queue", "QueueEndpoint=http://127.0.0.1:10001/"),
        ({"tableServiceUri": "http://localhost:10002/acc"}, "table", "TableEndpoint=http://localhost:10002/acc;"),
    ],
)
def test_a_storage_service_on_this_machine_is_azurite(properties: dict[str, str], service: str, endpoint: str) -> None:
    """The property of the service has precedence over the common one; the key is that of the development account."""
    values = {f"DATA__{name}": value for name, value in properties.items()}
    assert endpoint in Settings(values).connection("DATA", service)


@pytest.mark.parametrize(
    ("values", "service", "message"),
    [
        ({}, "serviceBus", "connection setting not found: 'CONN'"),
        ({"CONN__fullyQualifiedNamespace": "real.servicebus.windows.net"}, "serviceBus", "needs Azure: set CONN"),
        ({"CONN__accountName": "real"}, "blob", "the account 'real', which needs Azure"),
        ({"CONN__blobServiceUri": "https://real.blob.core.windows.net"}, "blob", "needs Azure"),
        ({"CONN__blobServiceUri": "http://127.0.0.1:1"}, "queue", "set CONN__queueServiceUri"),
        ({"CONN__credential": "managedidentity"}, "serviceBus", "set CONN__fullyQualifiedNamespace"),
    ],
)
def test_what_is_missing_is_named(values: dict[str, str], service: str, message: str) -> None:
    """The error names the setting."""
    with pytest.raises(BindingError, match=message):
        Settings(values).connection("CONN", service)


def test_connection_strings_of_the_file(tmp_path: Path) -> None:
    """Both forms of Core Tools are read; the environment has precedence over the file."""
    document = {"ConnectionStrings": {"A": "a", "B": {"ConnectionString": "b"}, "C": "c"}, "Values": {"D": "d"}}
    (tmp_path / "local.settings.json").write_text(json.dumps(document))
    settings = load_settings(tmp_path, {"ConnectionStrings:C": "environment"})
    assert [settings.connection(name, "blob") for name in "ABCD"] == ["a", "b", "environment", "d"]


def test_an_encrypted_file_is_refused(tmp_path: Path) -> None:
    """The error has the command that decrypts the file."""
    (tmp_path / "local.settings.json").write_text('{"IsEncrypted": true, "Values": {"A": "x"}}')
    with pytest.raises(HostError, match="func settings decrypt"):
        load_settings(tmp_path, {})


def test_the_emulators_visibility_timeout_goes_before_those_of_host_json() -> None:
    """Those of host.json count alone, five minutes each where it names none; one setting replaces both."""
    host_json = HostJson({f"{_PROVIDER}.controlQueueVisibilityTimeout": "00:01:00"})
    assert visibility_timeouts(host_json, Settings({})) == VisibilityTimeouts(
        timedelta(minutes=1), timedelta(minutes=5)
    )
    own = Settings({"EMULATOR_VISIBILITY_TIMEOUT": "5s"})
    assert visibility_timeouts(host_json, own) == VisibilityTimeouts(timedelta(seconds=5), timedelta(seconds=5))


@pytest.mark.parametrize(
    ("values", "settings", "problem"),
    [
        ({f"{_PROVIDER}.controlQueueVisibilityTimeout": "00:00:59"}, {}, "must be between 1 and 60 minutes"),
        ({f"{_PROVIDER}.controlQueueVisibilityTimeout": "01:00:01"}, {}, "must be between 1 and 60 minutes"),
        ({f"{_PROVIDER}.workItemQueueVisibilityTimeout": "00:00:00"}, {}, "must be between 1 second and 7 days"),
        ({}, {"EMULATOR_VISIBILITY_TIMEOUT": "soon"}, "EMULATOR_VISIBILITY_TIMEOUT: a duration is like 90s"),
        ({}, {"EMULATOR_VISIBILITY_TIMEOUT": "0s"}, "must be at least 100ms, not '0s'"),
        ({}, {"EMULATOR_VISIBILITY_TIMEOUT": "99ms"}, "must be at least 100ms, not '99ms'"),
    ],
)
def test_a_visibility_timeout_that_is_not_valid_stops_the_host(
    values: dict[str, str], settings: dict[str, str], problem: str
) -> None:
    """The first limits are those of Validate in Options/AzureStorageOptions.cs of the extension."""
    with pytest.raises(HostError, match=problem):
        visibility_timeouts(HostJson(values), Settings(settings))


def test_a_hub_name_may_be_a_setting() -> None:
    """As Durable reads `hubName`: the whole text, and the text itself where there is no such setting."""
    settings = Settings({"TASKHUB_NAME": "lucius"})
    assert [settings.whole(text) for text in ("%TASKHUB_NAME%", "x%TASKHUB_NAME%", "%OTHER%", "plain")] == [
        "lucius",
        "x%TASKHUB_NAME%",
        "%OTHER%",
        "plain",
    ]


@pytest.mark.parametrize("name", ["%TASKHUB_NAME%", "a", "1abc", "my-hub", "a_b", "x" * 51, "caf\u00e9"])
def test_a_hub_name_that_is_not_valid_is_refused(name: str) -> None:
    """Also `%NAME%` without its setting: Microsoft's host then starts no job host.

    ValidateHubName in AzureStorageOptions.cs of the durable extension.
    """
    host_json = HostJson({"extensions.durableTask.hubName": name})
    with pytest.raises(HostError, match=r"Task hub name '.*' should contain only alphanumeric characters"):
        hub_name(host_json, Settings({}))


def test_a_valid_hub_name_is_taken() -> None:
    host_json = HostJson({"extensions.durableTask.hubName": "%TASKHUB_NAME%"})
    assert hub_name(host_json, Settings({"TASKHUB_NAME": "lucius"})) == "lucius"
    assert hub_name(HostJson({}), Settings({})) == "TestHubName"
