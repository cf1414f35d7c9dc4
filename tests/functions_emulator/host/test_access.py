"""Keys, limits, CORS, settings, and functions that are run manually."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

import pytest

from functions_emulator.host.errors import HostError
from functions_emulator.host.keys import keys_of
from tests.functions_emulator.host.process import SOON_S, Host, eventually, start_host

DURABLE = "/runtime/webhooks/durabletask"

KEYS = {
    "master": "m-key",
    "host": {"default": "h-key"},
    "functions": {"locked": {"default": "f-key"}},
    "system": {"durabletask_extension": "s-key"},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("host")


@pytest.fixture(scope="module")
def host(folder: Path) -> Iterator[Host]:
    (folder / "keys.json").write_text(json.dumps(KEYS))
    environment = {"SEEN_FILE": str(folder / "seen"), "FROM_BOTH": "environment"}
    keys = ("--keys", folder / "keys.json")
    running = start_host("guarded", folder, *keys, environment=environment, wants_keys=True)
    yield running
    assert running.stop() == 0


@pytest.mark.parametrize(
    ("path", "key", "status"),
    [
        ("/api/open", None, 200),
        ("/api/locked", None, 401),
        ("/api/locked", "wrong", 401),
        ("/api/locked", "f-key", 200),
        ("/api/locked", "h-key", 200),
        ("/api/locked", "m-key", 200),
        ("/api/locked", "s-key", 401),
        ("/api/masters", "f-key", 401),
        ("/api/masters", "h-key", 401),
        ("/api/masters", "m-key", 200),
        ("/admin/functions", "h-key", 401),
        ("/admin/functions", "m-key", 200),
        ("/admin/host/status", None, 401),
        ("/admin/host/status", "m-key", 200),
        ("/admin/host/ping", None, 200),
        ("/%61dmin/functions", None, 401),
        ("/Admin/functions", None, 401),
        ("/emulator", "m-key", 404),
        ("/runtime/webhooks/durabletask/instances", None, 401),
        ("/runtime/webhooks/durabletask/instances", "s-key", 200),
    ],
)
def test_keys_open_what_they_should(host: Host, path: str, key: str | None, status: int) -> None:
    """A key is valid in the header and in `code`, for its own level only.

    HostController.cs of azure-functions-host: all of `/admin` but the ping is for admins
    (`PolicyNames.AdminAuthLevelOrInternal`), webhooks want their system key (`SystemKeyAuthLevel`).
    """
    headers = {} if key is None else {"x-functions-key": key}
    query = {} if key is None else {"code": key}
    assert host.get(path, headers=headers).status_code == status
    assert host.get(path, params=query).status_code == status


def test_keys_are_required_by_default_and_kept(tmp_path: Path) -> None:
    """Without an option, random keys are made in the data folder, which only their owner can read."""
    data = tmp_path / "data"
    host = start_host("guarded", tmp_path, "--data", data, environment={"FROM_BOTH": ""}, wants_keys=True)
    try:
        statuses = [host.get(path).status_code for path in ("/api/locked", "/admin/functions", f"{DURABLE}/instances")]
        assert statuses == [401, 401, 401]
        master = json.loads((data / "keys.json").read_text())["master"]
        assert host.get("/admin/functions", headers={"x-functions-key": master}).status_code == 200
        assert f"the access keys are in {data}/keys.json" in host.log
    finally:
        assert host.stop() == 0
    assert (data / "keys.json").stat().st_mode & 0o777 == 0o600
    assert keys_of(None, data).opens_admin(master)


def test_random_keys_are_nobodys() -> None:
    """Without a data folder no user has the keys, and each host has its own."""
    keys = keys_of(None, None)
    assert not keys.opens_admin(None)
    assert not keys.opens_durable("")
    assert keys.opens_durable(keys.durable)
    assert keys.durable != keys_of(None, None).durable


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"master": ""}, '"master" must be'),
        ({"host": {"default": " "}}, '"host.default" must be'),
        ({"functions": {"locked": {"default": ""}}}, '"functions.locked.default" must be'),
        ({"system": {"durabletask_extension": 7}}, '"system.durabletask_extension" must be'),
        ({"host": ["h-key"]}, 'must be JSON like {"master"'),
        ({"functions": {"locked": "f-key"}}, 'must be JSON like {"master"'),
    ],
)
def test_a_key_that_would_open_to_anybody_is_refused(tmp_path: Path, changed: dict[str, object], problem: str) -> None:
    """A blank key is that of a caller without one. The error names the file and the key, in a data folder too."""
    file = tmp_path / "keys.json"
    file.write_text(json.dumps(KEYS | changed))
    for keys in ((file, None), (None, tmp_path)):
        with pytest.raises(HostError, match=f"^{re.escape(f'{file}: {problem}')}"):
            keys_of(*keys)


def test_keys_are_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A host that dies while it writes them leaves none, and the next one makes its own."""

    def dies(descriptor: int) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("os.fsync", dies)
        with pytest.raises(KeyboardInterrupt):
            keys_of(None, tmp_path)
    assert list(tmp_path.iterdir()) == []
    keys = keys_of(None, tmp_path)
    assert keys.durable == keys_of(None, tmp_path).durable


def test_management_urls_carry_the_system_key(host: Host) -> None:
    """The SDK's client and the caller that has the status URL are admitted."""
    response = host.get("/api/begin").json()
    assert "code=s-key" in response["statusQueryGetUri"]
    path = response["statusQueryGetUri"].removeprefix(host.url)
    eventually(lambda: host.get(path).json()["runtimeStatus"] == "Completed")


def test_the_environment_wins_over_the_file(host: Host) -> None:
    """`local.settings.json` is read for names that the environment lacks."""
    assert host.get("/api/settings").text == "file environment"


def test_too_many_requests_are_429(host: Host, tmp_path: Path) -> None:
    """One runs, one waits, the third is refused."""
    until = tmp_path / "until"
    with ThreadPoolExecutor(3) as pool:
        calls = [pool.submit(host.get, "/api/slow", params={"until": str(until)}) for _ in range(3)]
        try:
            # no other one ends before
            assert next(as_completed(calls, SOON_S)).result().status_code == 429
        finally:
            until.touch()
        assert sorted(call.result().status_code for call in calls) == [200, 200, 429]


def test_cors_for_the_origin_that_is_allowed(host: Host) -> None:
    """The host responds to a preflight; responses name the allowed origin; a page of any other one is refused."""
    headers = {"Origin": "https://a.example", "Access-Control-Request-Method": "GET"}
    preflight = host.request("OPTIONS", "/api/open", headers=headers)
    assert preflight.status_code == 204
    assert preflight.headers["access-control-allow-methods"] == "GET"
    response = host.get("/api/open", headers={"Origin": "https://a.example"})
    assert response.headers["access-control-allow-origin"] == "https://a.example"
    assert response.headers["access-control-allow-credentials"] == "true"
    other = host.get("/api/open", headers={"Origin": "https://b.example"})
    assert (other.status_code, "access-control-allow-origin" in other.headers) == (403, False)
    key = {"x-functions-key": "s-key"}
    assert host.get(f"{DURABLE}/instances", headers={"Origin": "https://a.example", **key}).status_code == 200
    rebound = {"Origin": "https://a.example", "Host": "b.example"}
    assert host.get("/api/open", headers=rebound).status_code == 403


def test_a_value_of_the_wrong_type_is_a_failure(host: Host) -> None:
    """The caller gets 500; the reason is in the log."""
    assert host.get("/api/wrong").status_code == 500
    assert "must return a str or func.HttpResponse, not dict" in host.log


def test_a_function_can_be_run_manually(host: Host, folder: Path) -> None:
    """POST /admin/functions/{name} runs a timer function now."""
    headers = {"x-functions-key": "m-key"}
    assert host.post("/admin/functions/by_hand", headers=headers, json={"input": ""}).status_code == 202
    eventually(lambda: (folder / "seen").exists(), lambda: host.log)
    assert host.post("/admin/functions/nowhere", headers=headers, json={}).status_code == 404
