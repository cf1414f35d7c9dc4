"""The settings of a service, from its environment."""

from __future__ import annotations

import pytest

from lucius_service.settings import SettingsError, read_settings

GOOD = {"LUCIUS_SERVICEBUS_CONNECTION": "bus", "LUCIUS_BLOB_CONNECTION": "blob"}


def test_settings_have_defaults_and_hide_secrets() -> None:
    """Two connection strings are enough, and the log does not contain them."""
    settings = read_settings({**GOOD, "LUCIUS_SERVICEBUS_CONNECTION": "s3cret"})
    assert (16, tuple(range(16)), 32, 1, 0) == (
        settings.lanes,
        settings.listen,
        settings.queue_size,
        settings.workers,
        settings.health_port,
    )
    assert "s3cret" not in repr(settings)


def test_lanes_to_listen_to_may_be_chosen() -> None:
    """A list with ranges, for hosts that allow few connections."""
    assert read_settings({**GOOD, "LUCIUS_SERVICE_LANES": "8-10,0,3"}).listen == (0, 3, 8, 9, 10)


def test_an_identity_needs_addresses_only() -> None:
    """Without connection strings the bus's host name and the blob endpoint are enough; a connection string wins."""
    addresses = {
        "LUCIUS_SERVICEBUS_CONNECTION__fullyQualifiedNamespace": "bus.example.net",
        "LUCIUS_BLOB_ENDPOINT": "https://blobs.example.net/",
    }
    keyless = read_settings(addresses)
    assert (keyless.servicebus_connection, keyless.servicebus_namespace) == ("", "bus.example.net")
    assert (keyless.blob_connection, keyless.blob_endpoint) == ("", "https://blobs.example.net/")
    both = read_settings({**addresses, **GOOD})
    assert (
        both.servicebus_connection,
        both.servicebus_namespace,
        both.blob_connection,
        both.blob_endpoint,
    ) == ("bus", "", "blob", "")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("LUCIUS_SERVICEBUS_CONNECTION", ""),
        ("LUCIUS_BLOB_CONNECTION", " "),
        ("LUCIUS_SERVICEBUS_LANES", "0"),
        ("LUCIUS_SERVICEBUS_REPLY_PREFIX", "replies p"),
        ("LUCIUS_SERVICE_LANES", "3,16"),
        ("LUCIUS_SERVICE_LANES", "a-b"),
        ("LUCIUS_SERVICE_WORKERS", "many"),
        ("LUCIUS_SERVICE_HEARTBEAT_SECONDS", "nan"),
        ("LUCIUS_SERVICE_HEARTBEAT_SECONDS", "-1"),
    ],
)
def test_a_wrong_setting_is_named(name: str, value: str) -> None:
    """The message names the setting, in one line."""
    with pytest.raises(SettingsError, match=name) as failed:
        read_settings({**GOOD, name: value})
    assert "\n" not in str(failed.value)
