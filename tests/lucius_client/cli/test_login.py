"""`lucius login`: tokens from a real issuer are kept for their API and sent with each request."""

from __future__ import annotations

import base64
import json
import shlex
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from emulator.up.ports import find_free
from lucius_client.cli.login import SCOPES
from shared.access.caller import Scope
from tests.document_commands import block
from tests.lucius_client import samples
from tests.lucius_client.cli.command import run_main
from tests.lucius_client.stub_api import CannedResponse, serving
from tests.running_stack import ROOT


@pytest.fixture(scope="module")
def issuer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """`python -m emulator issuer` on a free port."""
    command = [sys.executable, "-m", "emulator", "issuer", "--port", "0", "--data", str(tmp_path_factory.mktemp("i"))]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        ready = process.stdout.readline().split()
        try:
            yield ready[1]
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0


def claims_of(token: str) -> dict:  # type: ignore[type-arg]
    part = token.split(".")[1]
    return json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))  # type: ignore[no-any-return]


def test_a_login_is_sent_until_the_logout(issuer: str, tmp_path: Path) -> None:
    """The token has the tenant and the scopes of the login, and its file can be read by the owner only."""
    config = tmp_path / "config"
    with serving(CannedResponse(body=samples.page())) as api:
        login = {"api": api.url, "LUCIUS_CONFIG_DIR": str(config)}
        of_an_auditor = shlex.split(block(ROOT / "docs" / "guides" / "audit.md", "export").splitlines()[0])[1:]
        assert run_main(*of_an_auditor, "--issuer", issuer, **login).returncode == 0
        scopes = ("--scope", "orch:read", "--scope", "orch:admin")
        completed = run_main("login", "--as", "tenant_a", *scopes, "--issuer", issuer, **login)
        assert completed.returncode == 0, completed.stderr
        assert completed.stdout.startswith(f"logged in to {api.url} as tenant_a (orch:read orch:admin) for ")
        file = config / "tokens.json"
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert run_main("jobs", **login).returncode == 0
        assert run_main("jobs", "--token", "given", **login).returncode == 0
        assert run_main("jobs", LUCIUS_TOKEN="of-the-environment", **login).returncode == 0
        assert run_main("logout", **login).stdout == f"logged out of {api.url}\n"
        assert run_main("jobs", **login).returncode == 0
    sent = [request.headers.get("authorization") for request in api.requests]
    claims = claims_of((sent[0] or "").removeprefix("Bearer "))
    assert (claims["tenant_id"], claims["scp"]) == ("tenant_a", "orch:read orch:admin")
    # no client can request this one
    assert claims["roles"] == ["orch:admin"]
    assert sent[1:] == ["Bearer given", "Bearer of-the-environment", None]


def test_a_submit_is_for_the_tenant_of_the_login(tmp_path: Path) -> None:
    """Without --tenant a job belongs to the tenant of the token."""
    step = {"step_id": "ocr", "step_type": "OCR", "service": "ocr"}
    protocol = {"protocol_id": "ocr", "version": 1, "request_type": "OCR", "steps": [step], "digest": "0"}
    with serving(CannedResponse(body=protocol), CannedResponse(400, samples.problem(400, "ENVELOPE_INVALID"))) as api:
        entry = {"tenant": "tenant_a", "scope": "", "access_token": "t", "expires_at": 1e12}
        (tmp_path / "tokens.json").write_text(json.dumps({api.url: entry}))
        words = ["submit", "https://example.org/a.pdf", "-p", "OCR"]
        assert run_main(*words, api=api.url, LUCIUS_CONFIG_DIR=str(tmp_path)).returncode == 3
    assert json.loads(api.requests[1].body)["tenant_id"] == "tenant_a"


def test_an_expired_token_is_an_error(tmp_path: Path) -> None:
    """It is not sent; the error has the command for a new one, and the one for an API without tokens."""
    entry = {"tenant": "tenant_a", "scope": "orch:read", "access_token": "old", "expires_at": 1}
    (tmp_path / "tokens.json").write_text(json.dumps({"http://127.0.0.1:1": entry}))
    completed = run_main("jobs", "--api", "http://127.0.0.1:1/", LUCIUS_CONFIG_DIR=str(tmp_path))
    assert completed.returncode == 2
    assert "run `lucius login --as tenant_a`" in completed.stderr
    assert "lucius logout" in completed.stderr


@pytest.mark.parametrize(
    "content", ["{", "[]", '{"http://127.0.0.1:1": "abc"}', '{"http://127.0.0.1:1": {"tenant": "a"}}']
)
def test_a_broken_file_of_tokens_is_an_error(content: str, tmp_path: Path) -> None:
    """One line with the remedy."""
    (tmp_path / "tokens.json").write_text(content)
    completed = run_main("jobs", "--api", "http://127.0.0.1:1/", LUCIUS_CONFIG_DIR=str(tmp_path))
    assert (completed.returncode, len(completed.stderr.splitlines())) == (2, 1)
    assert "remove the file, and run `lucius login`" in completed.stderr


def test_a_failed_login_keeps_nothing(issuer: str, tmp_path: Path) -> None:
    """An unknown scope or issuer is exit code 2, a refusal 3, no response 4; no file is written."""
    config = {"LUCIUS_CONFIG_DIR": str(tmp_path)}
    refused = run_main("login", "--as", "", "--issuer", issuer, **config)
    assert (refused.returncode, refused.stdout) == (3, "")
    assert refused.stderr.startswith(f"lucius: {issuer} returned no token: ")
    misspelt = run_main("login", "--as", "tenant_a", "--scope", "orch:raed", "--issuer", issuer, **config)
    assert misspelt.returncode == 2
    assert misspelt.stderr.startswith("lucius: --scope orch:raed: must be one of orch:read, ")
    unused = f"http://127.0.0.1:{find_free()}"
    unreachable = run_main("login", "--as", "tenant_a", "--issuer", unused, **config)
    assert unreachable.returncode == 4
    assert unreachable.stderr.startswith(f"lucius: no token issuer responds at {unused} ")
    another = run_main("login", "--as", "tenant_a", "--api", unused, **config)
    assert another.returncode == 2
    assert another.stderr.startswith(f"lucius: --issuer or LUCIUS_ISSUER must name the token issuer of {unused}; ")
    assert list(tmp_path.iterdir()) == []


def test_the_scopes_are_those_of_the_api() -> None:
    """A login accepts exactly the scopes of the API."""
    assert set(SCOPES) == {scope.value for scope in Scope}


def test_a_refused_token_leads_to_a_hint(tmp_path: Path) -> None:
    """401 is exit code 3, and the error names `lucius login`."""
    with serving(CannedResponse(401, samples.problem(401, "TOKEN_MISSING"))) as api:
        completed = run_main("jobs", api=api.url, LUCIUS_CONFIG_DIR=str(tmp_path))
    assert completed.returncode == 3
    assert completed.stderr.startswith("lucius: token missing, invalid or expired; get a token with `lucius login")
    assert completed.stderr.endswith(" (TOKEN_MISSING)\n")
