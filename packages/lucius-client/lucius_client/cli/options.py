"""Arguments and options of several commands."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from lucius_client.cli import completion, ids

_TIME = "this timestamp or age: 2026-01-27T10:00:00Z, 90m, 2h, 3d"

JobId = Annotated[
    str,
    typer.Argument(metavar="ID", help="Id of a job, or the id's first characters.", autocompletion=completion.job_ids),
    ids.JOB,
]
JobIds = Annotated[
    list[str],
    typer.Argument(
        metavar="ID...", help="Ids of jobs, or the ids' first characters.", autocompletion=completion.job_ids
    ),
    ids.JOB,
]


def tenant_option(text: str) -> Any:
    """Returns the option `--tenant` with this help text."""
    return typer.Option(envvar="LUCIUS_TENANT", help=text, autocompletion=completion.tenants)


def type_option(text: str) -> Any:
    """Returns the option `--type` with this help text."""
    return typer.Option("--type", metavar="REQUEST_TYPE", help=text, autocompletion=completion.protocols)


Tenant = Annotated[
    str | None,
    tenant_option("The tenant. Default: the tenant of the login, or of a token for one tenant, else all tenants."),
]
OneTenant = Annotated[
    str | None,
    tenant_option("The tenant. Default: the tenant of the login or token. Required if neither has a tenant."),
]
#: for commands whose API routes are for one tenant, and that search the tenants of known jobs and quotas
SearchedTenant = Annotated[
    str | None,
    tenant_option(
        "The tenant. Default: the tenant of the login or token. If neither has a tenant, the command searches the "
        "tenants of the latest 300 jobs and first 300 quotas."
    ),
]
#: for commands that do not use the tenant of a token
LoginTenant = Annotated[
    str | None,
    tenant_option("The tenant. Default: the login's tenant. Required without a login, or with --token."),
]
JobType = Annotated[str | None, type_option("Only jobs of this type.")]
Label = Annotated[str | None, typer.Option(metavar="KEY:VALUE", help="Only jobs with this label.")]
Since = Annotated[str | None, typer.Option(metavar="TIME", help=f"Only jobs created since {_TIME}.")]
Until = Annotated[str | None, typer.Option(metavar="TIME", help="Only jobs created before this timestamp or age.")]
Limit = Annotated[int, typer.Option(min=1, help="Maximum number of items.")]
OptionalReason = Annotated[
    str | None, typer.Option("--reason", help="Reason for the job's history, at most 1,024 characters.")
]
Reason = Annotated[str, typer.Option(help="Reason to record, at most 1,024 characters.")]
