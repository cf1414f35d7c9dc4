"""`lucius audit verify`: proves an audit bundle from the bundle alone, without the API.

`digest` of a bundle is the digest of all its other fields. `audit_v2` defines the digest and the other checks.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from lucius_client.cli import audit_v2, rendering
from lucius_client.cli.commands import add
from lucius_client.cli.exits import Exit, UsageError

Json = Any

_FORMAT = "lucius-audit/2"

audit_app = typer.Typer(help="Audit bundles (`lucius job audit ID`): verify.", no_args_is_help=True)


@audit_app.callback()
def audit() -> None:
    """Audit bundles."""


def verify_file(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A bundle; - is standard input.")],
    head: Annotated[
        str | None, typer.Option(metavar="HASH", help="Hash that the last event must have, from a separate record.")
    ] = None,
    json_: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Verify an audit bundle without the API.

    Checks the digest, the hash chain, and that the rows follow from the events. Exit code 1 if a check fails.
    """
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
        bundle = json.loads(text, object_pairs_hook=_once)
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"cannot read {file}: {error}") from error
    faults = verify(bundle, head=head)
    noted = "" if faults else bundle["job"]["event_hash"]
    if json_:
        rendering.write_json({"proved": not faults, "wrong": faults, "head": noted or None})
    elif faults:
        rendering.write("\n".join(faults))
    else:
        job = bundle["job"]
        rendering.write(f"proved: {job['job_id']} {job['status']}, {len(bundle['events'])} events, head {noted}")
    if faults:
        raise typer.Exit(Exit.NOT_WELL)


add(audit_app, "verify", verify_file, "lucius audit verify bundle.json")


def verify(bundle: Json, *, head: str | None = None) -> list[str]:
    """The faults of a bundle, in words; an empty list if it is proved.

    `head` is the hash that the last event must have, as noted elsewhere; None: any hash.
    """
    if not isinstance(bundle, Mapping) or bundle.get("format") != _FORMAT:
        return [f"this is not an audit bundle of format {_FORMAT}"]
    faults = []
    try:
        rest = {name: value for name, value in bundle.items() if name != "digest"}
        if bundle.get("digest") != "sha256:" + audit_v2.digest(rest):
            faults.append("the digest is not that of the content")
        if (rows := [(step["step_index"], step["step_id"]) for step in bundle["steps"]]) != _in_order(rows):
            return [*faults, "a step is missing, repeated or out of order"]
        return faults + audit_v2.chain_faults(bundle["job"], bundle["steps"], bundle["events"], head)
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        return [*faults, f"the content cannot be read: {type(error).__name__}: {error}"]


def _in_order(rows: list[tuple[int, str]]) -> list[tuple[int, str]]:
    """The steps as a job has them: numbered from 0, and no id twice."""
    ids = dict.fromkeys(step_id for _, step_id in rows)
    return list(enumerate(ids))


def _once(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    """One reader takes the first of two members of the same name, another the last."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("an object has two fields of the same name")
    return found
