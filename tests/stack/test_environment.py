from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from emulator.up.environment import addresses, for_children
from emulator.up.errors import UpError
from emulator.up.ports import Ports

PORTS = Ports(api=1, bus=2, admin=3, azurite=4)


def write_settings(folder: Path, values: object, **more: object) -> None:
    (folder / "local.settings.json").write_text(json.dumps({"IsEncrypted": False, "Values": values, **more}))


def test_without_a_file_the_stack_has_what_it_needs(tmp_path: Path) -> None:
    """Storage, bus, backend, authentication and a short visibility timeout have defaults."""
    environment = for_children(PORTS, tmp_path, {})
    assert environment["LUCIUS_STORAGE_BACKEND"] == "tables"
    assert environment["LUCIUS_AUTH_MODE"] == "none"
    assert environment["EMULATOR_VISIBILITY_TIMEOUT"] == "5s"
    assert "TableEndpoint=http://127.0.0.1:6/devstoreaccount1;" in environment["LUCIUS_TABLE_CONNECTION"]
    assert environment["LUCIUS_SERVICEBUS_CONNECTION"].startswith("Endpoint=sb://127.0.0.1:2;")
    assert environment["LUCIUS_PUBLIC_URL"] == "http://127.0.0.1:1"


def test_an_issuer_is_the_one_whose_tokens_are_asked_for(tmp_path: Path) -> None:
    """With an issuer in the stack every request needs its tokens, even if the file turns authentication off."""
    write_settings(tmp_path, {"LUCIUS_AUTH_MODE": "none"})
    environment = for_children(replace(PORTS, issuer=9), tmp_path, {})
    assert environment["LUCIUS_AUTH_MODE"] == "jwt"
    assert environment["LUCIUS_AUTH_ISSUER"] == "http://127.0.0.1:9"
    assert environment["LUCIUS_AUTH_JWKS_URL"] == "http://127.0.0.1:9/keys"


def test_the_caller_wins_over_the_file_and_the_file_over_defaults(tmp_path: Path) -> None:
    """A setting is taken from the environment first, then from local.settings.json, then from the defaults."""
    write_settings(tmp_path, {"LUCIUS_MAX_ATTEMPTS": "5", "LUCIUS_AUTH_MODE": "jwt", "LUCIUS_SERVICEBUS_LANES": 16})
    environment = for_children(PORTS, tmp_path, {"LUCIUS_MAX_ATTEMPTS": "2"})
    assert environment["LUCIUS_MAX_ATTEMPTS"] == "2"
    assert environment["LUCIUS_AUTH_MODE"] == "jwt"
    assert environment["LUCIUS_SERVICEBUS_LANES"] == "16"


def test_addresses_in_the_file_do_not_cross_stacks(tmp_path: Path) -> None:
    """An address in local.settings.json yields to the stack's own; only the caller's environment beats that."""
    write_settings(tmp_path, {"AzureWebJobsStorage": "UseDevelopmentStorage=true"})
    assert for_children(PORTS, tmp_path, {})["AzureWebJobsStorage"] == addresses(PORTS)["AzureWebJobsStorage"]
    caller = {"LUCIUS_SERVICEBUS_CONNECTION": "Endpoint=sb://proxy:1;"}
    assert for_children(PORTS, tmp_path, caller)["LUCIUS_SERVICEBUS_CONNECTION"] == "Endpoint=sb://proxy:1;"


@pytest.mark.parametrize("text", ["{", "[]", '{"Values": []}', '{"IsEncrypted": true, "Values": {"A": "x"}}'])
def test_a_file_that_cannot_be_used_is_named(tmp_path: Path, text: str) -> None:
    """Broken, malformed and encrypted settings are one line with the path."""
    (tmp_path / "local.settings.json").write_text(text)
    with pytest.raises(UpError, match=r"local\.settings\.json") as caught:
        for_children(PORTS, tmp_path, {})
    assert "\n" not in str(caught.value)
