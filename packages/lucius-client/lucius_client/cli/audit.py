"""`lucius audit verify`: proves an audit bundle without the API."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from lucius_client.cli.audit_bundle import verify
from lucius_client.cli.exits import Exit, UsageError

audit_app = typer.Typer(help="Audit bundles (`lucius job audit ID`): verify.", no_args_is_help=True)


@audit_app.callback()
def audit() -> None:
    """Audit bundles."""


@audit_app.command("verify")
def verify_file(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A bundle; - is standard input.")],
    head: Annotated[
        str | None, typer.Option(metavar="HASH", help="The head that was noted elsewhere, to be compared with.")
    ] = None,
    json_: Annotated[bool, typer.Option("--json", help="The verdict as JSON.")] = False,
) -> None:
    """Check the digest, the chain of events, and that the rows are what the events made. Exit code 1 if it fails."""
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
        bundle = json.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"cannot read {file}: {error}") from error
    faults = verify(bundle, head=head)
    noted = "" if faults else bundle["job"]["event_hash"]
    if json_:
        print(json.dumps({"proved": not faults, "wrong": faults, "head": noted or None}, indent=2, ensure_ascii=False))
    elif faults:
        print("\n".join(faults))
    else:
        job = bundle["job"]
        print(f"proved: {job['job_id']} {job['status']}, {len(bundle['events'])} events, head {noted}")
    if faults:
        raise typer.Exit(Exit.NOT_WELL)
