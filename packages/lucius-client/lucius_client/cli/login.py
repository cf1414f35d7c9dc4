"""`lucius login`, `logout`: a token from the local issuer, kept for the commands that follow."""

from __future__ import annotations

import json
from typing import Annotated, Any
from urllib.parse import urlsplit

import httpx
import typer

from lucius_client import DEFAULT_URL
from lucius_client.cli import credentials
from lucius_client.cli.exits import CliError, DependencyUnreachable, Exit, UsageError
from lucius_client.cli.session import ApiOption

DEFAULT_ISSUER = "http://127.0.0.1:7080"
#: those of the API: the issuer gives any, and a token with a misspelt one is refused by every route
SCOPES = ("orch:read", "orch:operate", "orch:quota", "orch:admin")
_TIMEOUT_S = 10.0


def login(
    tenant: Annotated[str, typer.Option("--as", metavar="TENANT", help="Whose token.")],
    scope: Annotated[
        list[str] | None, typer.Option(metavar="SCOPE", help=f"May be repeated: {', '.join(SCOPES)}.")
    ] = None,
    issuer: Annotated[
        str | None,
        typer.Option(envvar="LUCIUS_ISSUER", metavar="URL", help=f"The token issuer.  [default: {DEFAULT_ISSUER}]"),
    ] = None,
    api: ApiOption = DEFAULT_URL,
    json_: Annotated[bool, typer.Option("--json", help="The kept token's facts as JSON, without the token.")] = False,
) -> None:
    """Get a token and keep it for this API, in a file that only you can read; LUCIUS_TOKEN and --token win over it."""
    scopes = " ".join(scope or ["orch:read", "orch:operate"])
    for each in scopes.split():
        if each not in SCOPES:
            raise UsageError(f"--scope {each}: must be one of {', '.join(SCOPES)}")
    granted = _token(issuer or _issuer_of(api), {"grant_type": "client_credentials", "tenant": tenant, "scope": scopes})
    credentials.store(
        api,
        tenant=tenant,
        scope=scopes,
        access_token=str(granted["access_token"]),
        expires_in_s=float(granted.get("expires_in", 3600)),
    )
    if json_:
        print(json.dumps({"api": api, "tenant": tenant, "scope": scopes, "file": str(credentials.path())}, indent=2))
    else:
        print(f"logged in to {api} as {tenant} ({scopes}) for {int(float(granted.get('expires_in', 3600)))} s")


def logout(api: ApiOption = DEFAULT_URL) -> None:
    """Forget the token of this API."""
    print(f"logged out of {api}" if credentials.forget(api) else f"nobody was logged in to {api}")


def _issuer_of(api: str) -> str:
    """The usual stack's issuer is known; a token from there would be worthless to another stack."""
    parts = urlsplit(api)
    if (parts.hostname, parts.port) in (("127.0.0.1", 7071), ("localhost", 7071)):
        return DEFAULT_ISSUER
    raise UsageError(f"--issuer (or LUCIUS_ISSUER): who issues tokens for {api}? `emulator up --auth` prints it")


def _token(issuer: str, form: dict[str, str]) -> dict[str, Any]:
    try:
        response = httpx.post(f"{issuer.rstrip('/')}/token", data=form, timeout=_TIMEOUT_S, trust_env=False)
    except (httpx.UnsupportedProtocol, httpx.InvalidURL) as error:
        raise UsageError(f"--issuer {issuer}: {error}") from error
    except httpx.TransportError as error:
        reason = str(error) or type(error).__name__
        raise DependencyUnreachable(
            f"no token issuer answers at {issuer} ({reason}); start one by `make up AUTH=1`"
        ) from error
    try:
        body = response.json()
    except ValueError:
        body = None
    if response.status_code >= 400 or not isinstance(body, dict) or "access_token" not in body:
        problem = body if isinstance(body, dict) else {}
        reason = problem.get("error_description") or problem.get("error") or f"it answered {response.status_code}"
        raise CliError(f"{issuer} gave no token: {reason}", Exit.REFUSED)
    return body
