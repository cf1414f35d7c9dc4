"""A service as a program: settings, health, and what keeps it from starting."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest

from lucius_service.settings import SettingsError, read_settings
from platform_service.settings import read_model
from tests.lucius_service.service_process import ROOT, Service

GOOD = {"LUCIUS_SERVICEBUS_CONNECTION": "bus", "LUCIUS_BLOB_CONNECTION": "blob"}


def test_settings_have_defaults_and_hide_secrets() -> None:
    """Two connection strings are enough, and neither they nor the API key are in what is logged."""
    model = {
        "LUCIUS_SIS_OPENAI_BASE_URL": "http://m/v1/",
        "LUCIUS_SIS_OPENAI_MODEL": "m",
        "LUCIUS_SIS_OPENAI_API_KEY": "k3y",
    }
    settings = read_settings({**GOOD, "LUCIUS_SERVICEBUS_CONNECTION": "s3cret", **model})
    assert (16, tuple(range(16)), 32, 1, 0) == (
        settings.lanes,
        settings.listen,
        settings.queue_size,
        settings.workers,
        settings.health_port,
    )
    endpoint = read_model(model)
    assert endpoint is not None
    assert (endpoint.base_url, endpoint.api_key) == ("http://m/v1", "k3y")
    assert "s3cret" not in repr(settings)
    assert "k3y" not in repr(endpoint)


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


def test_a_wrong_model_endpoint_is_named() -> None:
    """What only SIS reads is checked where SIS reads it."""
    with pytest.raises(SettingsError, match="LUCIUS_SIS_OPENAI_BASE_URL"):
        read_model({"LUCIUS_SIS_OPENAI_BASE_URL": "ftp://m"})


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"LUCIUS_SERVICEBUS_CONNECTION": "nonsense-s3cret", "LUCIUS_BLOB_CONNECTION": "nonsense-s3cret"},
    ],
)
def test_what_cannot_start_says_so_in_one_line(settings: dict[str, str]) -> None:
    """Exit code 1, one line on stderr, no stack trace and no secret."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("LUCIUS_")}
    done = subprocess.run(
        [sys.executable, "-m", "platform_service", "embedding"],
        cwd=ROOT,
        env={**clean, **settings},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("embedding: LUCIUS_")
    assert "s3cret" not in done.stderr


def test_health_tells_of_lanes_and_storage(probe: Callable[..., AbstractContextManager[Service]]) -> None:
    """Live, ready with its dependencies by name, and 404 for the rest."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]

    def get(path: str) -> tuple[int, dict[str, object]]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=20) as response:
                return response.status, json.load(response)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)

    with probe(LUCIUS_SERVICE_HEALTH_PORT=str(port)):
        assert get("/health/live") == (200, {"status": "live"})
        assert get("/health/ready") == (200, {"status": "ready", "checks": {"servicebus": "ok", "storage": "ok"}})
        assert get("/other")[0] == 404


def test_the_package_knows_nothing_of_the_control_plane() -> None:
    """It imports neither `shared` nor `emulator`: a team takes the folder and has all it needs."""
    script = (
        "import pkgutil, importlib, sys, platform_service\n"
        "for m in pkgutil.walk_packages(platform_service.__path__, 'platform_service.'):\n"
        "    m.name.endswith('__main__') or importlib.import_module(m.name)\n"
        "print([n for n in sys.modules if n.split('.')[0] in ('shared', 'emulator', 'cli', 'triggers')])"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
