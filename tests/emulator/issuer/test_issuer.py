"""The token issuer as a process, over HTTP."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import jwt
import pytest

ROOT = Path(__file__).resolve().parents[3]
#: far more than the machine needs, even if it is busy
LONG_S = 60
GRANT = {"grant_type": "client_credentials"}


@contextmanager
def issuing(data: Path, port: int = 0) -> Iterator[str]:
    """Runs `python -m emulator issuer` as a process; yields its URL."""
    command = [sys.executable, "-m", "emulator", "issuer", "--port", str(port), "--data", str(data)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        ready, _, url = process.stdout.readline().strip().partition(" ")
        assert ready == "ready", process.communicate(timeout=LONG_S)[1]
        yield url
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(LONG_S) == 0


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("issuer")


@pytest.fixture(scope="module")
def issuer(folder: Path) -> Iterator[httpx.Client]:
    with issuing(folder) as url, httpx.Client(base_url=url, timeout=LONG_S) as client:
        yield client


def decoded(issuer: httpx.Client, token: str) -> dict[str, object]:
    """The claims of a token, verified with the keys of the discovery document."""
    discovery = issuer.get("/.well-known/openid-configuration").json()
    keys = jwt.PyJWKSet.from_dict(issuer.get(discovery["jwks_uri"]).json())
    key = keys[jwt.get_unverified_header(token)["kid"]]
    claims: dict[str, object] = jwt.decode(
        token, key, algorithms=["RS256"], audience="api://lucius", issuer=discovery["issuer"]
    )
    return claims


def test_a_token_for_a_tenant_and_scopes(issuer: httpx.Client) -> None:
    """A form gets a bearer token that is valid for an hour and is not cached; the published key verifies it."""
    form = GRANT | {"tenant": "tenant_a", "scope": "orch:read  orch:operate"}
    response = issuer.post(issuer.get("/.well-known/openid-configuration").json()["token_endpoint"], data=form)
    assert response.headers["Cache-Control"] == "no-store"
    body = response.json()
    assert (body["token_type"], body["expires_in"], body["scope"]) == ("Bearer", 3600, "orch:read orch:operate")
    claims = decoded(issuer, body["access_token"])
    assert (claims["tenant_id"], claims["scp"], claims["sub"]) == (
        "tenant_a",
        "orch:read orch:operate",
        "local:tenant_a",
    )
    assert "roles" not in claims


def test_an_operator_has_a_role_and_needs_no_tenant(issuer: httpx.Client) -> None:
    """`roles` may replace `tenant`; `subject` and `expires_in` are used as requested."""
    form = GRANT | {"roles": "orch:all-tenants", "subject": "olga", "expires_in": "90"}
    claims = decoded(issuer, issuer.post("/token", data=form).json()["access_token"])
    assert (claims["roles"], claims["sub"]) == (["orch:all-tenants"], "olga")
    assert "tenant_id" not in claims
    assert claims["exp"] == int(str(claims["iat"])) + 90


def test_claims_of_another_issuer_can_be_asked_for(issuer: httpx.Client) -> None:
    """As Entra's: claims that a developer wants to try; they replace those of the form."""
    asked = '{"oid": "o-1", "idtyp": "user", "groups": ["g-1"], "azp": "client", "tenant_id": "b"}'
    form = GRANT | {"tenant": "a", "claims": asked}
    claims = decoded(issuer, issuer.post("/token", data=form).json()["access_token"])
    assert claims.items() >= json.loads(asked).items()
    alone = decoded(issuer, issuer.post("/token", data=GRANT | {"claims": '{"oid": "o-1"}'}).json()["access_token"])
    assert "tenant_id" not in alone


@pytest.mark.parametrize(
    ("form", "error"),
    [
        ({}, "unsupported_grant_type"),
        ({"grant_type": "password", "tenant": "a"}, "unsupported_grant_type"),
        (GRANT, "invalid_request"),
        (GRANT | {"tenant": "a", "expires_in": "0"}, "invalid_request"),
        (GRANT | {"tenant": "a", "expires_in": "x"}, "invalid_request"),
        (GRANT | {"tenant": "a", "expires_in": "99999999"}, "invalid_request"),
        (GRANT | {"tenant": "a", "claims": "x"}, "invalid_request"),
        (GRANT | {"tenant": "a", "claims": "[]"}, "invalid_request"),
        (GRANT | {"claims": "{}"}, "invalid_request"),
        (GRANT | {"tenant": "a", "claims": '{"exp": 9999999999}'}, "invalid_request"),
    ],
)
def test_a_wrong_form_is_400_with_its_error_code(issuer: httpx.Client, form: dict[str, str], error: str) -> None:
    """The body has an error code of RFC 6749 5.2 and a description."""
    response = issuer.post("/token", data=form)
    assert (response.status_code, response.json()["error"]) == (400, error)
    assert response.json()["error_description"]


def test_keys_outlive_a_restart_and_a_rotation(folder: Path, issuer: httpx.Client) -> None:
    """The new key signs, the earlier one stays published; another process with the same folder has both."""
    token = issuer.post("/token", data=GRANT | {"tenant": "a"}).json()["access_token"]
    kid = issuer.post("/rotate").json()["kid"]
    assert (
        jwt.get_unverified_header(issuer.post("/token", data=GRANT | {"tenant": "a"}).json()["access_token"])["kid"]
        == kid
    )
    decoded(issuer, token)
    assert (folder / "issuer.json").stat().st_mode & 0o777 == 0o600
    with issuing(folder) as url:
        assert httpx.get(f"{url}/keys", timeout=LONG_S).json() == issuer.get("/keys").json()


def test_an_issuer_that_cannot_start_prints_one_line(folder: Path, issuer: httpx.Client, tmp_path: Path) -> None:
    """A port in use, or unreadable keys: one line and exit code 1."""
    (tmp_path / "issuer.json").write_text("[{}]")
    for data, port in ((folder, issuer.base_url.port), (tmp_path, 0)):
        command = [sys.executable, "-m", "emulator", "issuer", "--port", str(port), "--data", str(data)]
        ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
        assert ended.returncode == 1
        assert ended.stderr.startswith("issuer: ")
        assert ended.stderr.count("\n") == 1
