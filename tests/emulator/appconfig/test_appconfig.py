"""The emulator against the Microsoft SDK."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from azure.appconfiguration import AzureAppConfigurationClient, ConfigurationSetting
from azure.core import MatchConditions
from azure.core.exceptions import HttpResponseError, ResourceNotFoundError

from emulator.appconfig.settings_file import matches
from tests.emulator.appconfig.serving import serving, write
from tests.running_stack import ROOT

VALUES = {"lucius:a": "1", "lucius:b/c d": {"x": [1]}, "other": "2"} | {f"many:{n:03}": str(n) for n in range(250)}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AzureAppConfigurationClient]:
    path = tmp_path_factory.mktemp("appconfig") / "settings.json"
    write(path, VALUES)
    with serving(path) as connection, AzureAppConfigurationClient.from_connection_string(connection) as connected:
        yield connected


def test_one_setting_is_read_with_its_etag(client: AzureAppConfigurationClient) -> None:
    """Text is served unchanged, any other value as JSON; an unknown key is a 404."""
    assert client.get_configuration_setting("lucius:a").value == "1"
    assert client.get_configuration_setting("lucius:b/c d").value == '{"x": [1]}'
    with pytest.raises(ResourceNotFoundError):
        client.get_configuration_setting("nothing")


def test_an_unchanged_setting_is_not_sent_again(client: AzureAppConfigurationClient) -> None:
    """With If-None-Match the response is 304, which the SDK returns as None."""
    first = client.get_configuration_setting("lucius:a")
    again = client.get_configuration_setting("lucius:a", etag=first.etag, match_condition=MatchConditions.IfModified)
    assert again is None


def test_settings_are_listed_by_prefix_and_page(client: AzureAppConfigurationClient) -> None:
    """A filter with a star matches a prefix; more than a hundred settings are paged."""
    listed = list(client.list_configuration_settings(key_filter="lucius:*", label_filter="\0"))
    assert [setting.key for setting in listed] == ["lucius:a", "lucius:b/c d"]
    assert len(list(client.list_configuration_settings(key_filter="many:*"))) == 250
    assert list(client.list_configuration_settings(key_filter="lucius:*", label_filter="prod")) == []


def test_nothing_can_be_written(client: AzureAppConfigurationClient) -> None:
    """A write is refused with 405."""
    with pytest.raises(HttpResponseError) as refused:
        client.set_configuration_setting(ConfigurationSetting(key="lucius:a", value="9"))
    assert refused.value.status_code == 405


def test_an_edit_is_served_and_a_broken_one_is_not(tmp_path: Path) -> None:
    """The file is read again when it changes; a broken edit leaves the last content; an unsigned request is refused."""
    path = tmp_path / "settings.json"
    write(path, {"a": "1"})
    with serving(path) as connection, AzureAppConfigurationClient.from_connection_string(connection) as connected:
        before = connected.get_configuration_setting("a")
        write(path, {"a": "22"})
        after = connected.get_configuration_setting("a")
        assert (after.value, after.etag != before.etag) == ("22", True)
        path.write_text("{")
        assert connected.get_configuration_setting("a").value == "22"
        url = connection.split(";")[0].removeprefix("Endpoint=")
        assert httpx.get(f"{url}/kv?api-version=1.0", timeout=60).status_code == 401


@pytest.mark.parametrize(("text", "words"), [(None, "No such file"), ("{", "not JSON"), ("[]", "JSON object")])
def test_a_file_that_cannot_be_served_is_one_line(tmp_path: Path, text: str | None, words: str) -> None:
    """A missing or broken file, or one without a JSON object: one line and exit code 1."""
    path = tmp_path / "settings.json"
    if text is not None:
        path.write_text(text)
    run = subprocess.run(
        [sys.executable, "-m", "emulator", "appconfig", "--port", "0", "--file", str(path)],
        cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (run.returncode, len(run.stderr.splitlines())) == (1, 1)
    assert words in run.stderr


@pytest.mark.parametrize(
    ("pattern", "key", "expected"),
    [
        ("*", "a", True),
        ("a*", "ab", True),
        ("a", "ab", False),
        ("x,a", "a", True),
        (r"a\*", "a*", True),
        (r"a\*", "ab", False),
        (r"a\,b", "a,b", True),
    ],
)
def test_filters(pattern: str, key: str, expected: bool) -> None:
    """Commas, stars and backslashes as in Azure."""
    assert matches(pattern, key) is expected
