"""Completes ids of jobs, tenants and protocols from the API, for a shell.

A shell waits for the result. If the API refuses a request or does not respond within two seconds, the result is empty
and no error is shown.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

import typer

from lucius_client import DEFAULT_URL, Client, LuciusError, Retries
from lucius_client.cli import credentials, ids
from lucius_client.cli.exits import CliError

_TIMEOUT_S = 2.0
_JOBS = 100

#: pairs of a value and a description
Words = Iterable[tuple[str, str]]


def _completed(listed: Callable[[Client, str | None], Words]) -> Callable[[typer.Context, str], list[tuple[str, str]]]:
    def complete(ctx: typer.Context, incomplete: str) -> list[tuple[str, str]]:
        url = ctx.params.get("api") or os.environ.get("LUCIUS_API") or DEFAULT_URL
        tenant = ctx.params.get("tenant") or os.environ.get("LUCIUS_TENANT") or None
        try:
            token = ctx.params.get("token") or os.environ.get("LUCIUS_TOKEN") or credentials.access_token(url)
            with Client(url, token=token, retries=Retries(attempts=1), timeout_s=_TIMEOUT_S) as api:
                return [each for each in listed(api, tenant) if each[0].startswith(incomplete)]
        except (LuciusError, CliError):
            return []

    return complete


job_ids = _completed(
    lambda api, tenant: (
        (each.jobId, f"{each.request_type} {each.status}") for each in api.jobs(tenant_id=tenant, limit=_JOBS)
    )
)
tenants = _completed(lambda api, _: ((each, "") for each in ids.tenants(api, _JOBS)))
protocols = _completed(lambda api, _: ((each.request_type, each.description or "") for each in api.protocols()))
