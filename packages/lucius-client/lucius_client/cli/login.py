"""`lucius login` and `lucius logout`: store and delete a token of the local issuer."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import urlsplit

import httpx
import typer

from lucius_client import DEFAULT_URL
from lucius_client.cli import credentials, rendering
from lucius_client.cli.exits import CliError, DependencyUnreachable, Exit, UsageError
from lucius_client.cli.session import ApiOption

DEFAULT_ISSUER = "http://127.0.0.1:7080"
#: the scopes of the API; the issuer grants any scope, so a misspelt one must be refused here
SCOPES = ("orch:read", "orch:operate", "orch:quota", "orch:audit", "orch:admin")
#: scopes that the API accepts only as a role; an administrator grants roles
_ROLES = frozenset({"orch:admin"})
_TIMEOUT_S = 10.0


def login(
    tenant: Annotated[str, typer.Option("--as", metavar="TENANT", help="Tenant of the token.")],
    scope: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SCOPE",
            help=f"Scope of the token: {', '.join(SCOPES)}. Repeatable. Default: orch:read and orch:operate.",
        ),
    ] = None,
    issuer: Annotated[
        str | None,
        typer.Option(
            envvar="LUCIUS_ISSUER",
            metavar="URL",
            help=f"URL of the token issuer. Default for the API at port 7071 of this machine: {DEFAULT_ISSUER}.",
        ),
    ] = None,
    api: ApiOption = DEFAULT_URL,
    json_: Annotated[bool, typer.Option("--json", help="Print the stored login as JSON, without the token.")] = False,
) -> None:
    """Get a token and store it for this API.

    Only you can read the file with the token. --token and LUCIUS_TOKEN take
    precedence over the stored token.
    """
    scopes = " ".join(scope or ["orch:read", "orch:operate"])
    for each in scopes.split():
        if each not in SCOPES:
            raise UsageError(f"--scope {each}: must be one of {', '.join(SCOPES)}")
    form = {"grant_type": "client_credentials", "tenant": tenant, "scope": scopes}
    form["roles"] = " ".join(sorted(_ROLES.intersection(scopes.split())))
    granted = _token(issuer or _issuer_of(api), form)
    credentials.store(
        api,
        tenant=tenant,
        scope=scopes,
        access_token=str(granted["access_token"]),
        expires_in_s=float(granted.get("expires_in", 3600)),
    )
    if json_:
        rendering.write_json({"api": api, "tenant": tenant, "scope": scopes, "file": str(credentials.path())})
    else:
        seconds = int(float(granted.get("expires_in", 3600)))
        rendering.write(f"logged in to {api} as {tenant} ({scopes}) for {seconds} s")


def logout(api: ApiOption = DEFAULT_URL) -> None:
    """Delete the stored token for this API."""
    rendering.write(f"logged out of {api}" if credentials.forget(api) else f"not logged in to {api}")


def _issuer_of(api: str) -> str:
    """Returns the issuer of the default stack. Raises UsageError if `api` is another API, which refuses the issuer's
    tokens.
    """
    parts = urlsplit(api)
    if (parts.hostname, parts.port) in (("127.0.0.1", 7071), ("localhost", 7071)):
        return DEFAULT_ISSUER
    raise UsageError(
        f"--issuer or LUCIUS_ISSUER must name the token issuer of {api}; `python -m emulator up --auth` prints the URL"
    )


def _token(issuer: str, form: dict[str, str]) -> dict[str, Any]:
    try:
        response = httpx.post(f"{issuer.rstrip('/')}/token", data=form, timeout=_TIMEOUT_S, trust_env=False)
    except (httpx.UnsupportedProtocol, httpx.InvalidURL) as error:
        raise UsageError(f"--issuer {issuer}: {error}") from error
    except httpx.TransportError as error:
        reason = str(error) or type(error).__name__
        raise DependencyUnreachable(
            f"no token issuer responds at {issuer} ({reason}); name another issuer with --issuer, or run "
            "`make up AUTH=1` in a checkout"
        ) from error
    try:
        body = response.json()
    except ValueError:
        body = None
    if response.status_code >= 400 or not isinstance(body, dict) or "access_token" not in body:
        problem = body if isinstance(body, dict) else {}
        reason = problem.get("error_description") or problem.get("error") or f"HTTP status {response.status_code}"
        raise CliError(f"{issuer} returned no token: {reason}; check --as, --scope and --issuer", Exit.REFUSED)
    return body
