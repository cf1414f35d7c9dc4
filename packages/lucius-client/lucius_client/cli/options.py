"""Arguments and options that several commands have."""

from __future__ import annotations

from typing import Annotated

import typer

_TIME = "2026-01-27T10:00:00Z, or 90m, 2h, 3d ago"

JobId = Annotated[str, typer.Argument(metavar="ID", help="A job's id.")]
Tenant = Annotated[
    str | None, typer.Option(envvar="LUCIUS_TENANT", help="The tenant. Default: that of the login, else all tenants.")
]
JobType = Annotated[str | None, typer.Option("--type", metavar="REQUEST_TYPE", help="Only jobs of this protocol.")]
Label = Annotated[str | None, typer.Option(metavar="KEY:VALUE", help="Only jobs with this label.")]
Since = Annotated[str | None, typer.Option(metavar="TIME", help=f"Only jobs created at or after {_TIME}.")]
Until = Annotated[str | None, typer.Option(metavar="TIME", help="Only jobs created before this time.")]
Limit = Annotated[int, typer.Option(min=1, help="Maximum number of items.")]
OptionalReason = Annotated[str | None, typer.Option("--reason", help="A text for the job's history.")]
Reason = Annotated[str, typer.Option(help="A text for the log.")]
