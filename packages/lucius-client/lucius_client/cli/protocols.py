"""`lucius protocol`: lists, shows and compares protocols, and checks protocol files."""

from __future__ import annotations

import difflib
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from lucius_client import ProtocolNotFound
from lucius_client.cli import completion, rendering
from lucius_client.cli.commands import add
from lucius_client.cli.exits import CliError, Exit, UsageError
from lucius_client.cli.protocol_diff import Definition, compare, read_definition
from lucius_client.cli.session import Session, with_session
from lucius_client.cli.tables import Column, Listing
from lucius_client.models import Protocol

PROTOCOLS = Listing(
    "protocols",
    "request_type",
    (
        Column("type", "request_type", room=12),
        Column("version", "version", drop=2),
        Column("steps", lambda protocol: " > ".join(step["step_id"] for step in protocol["steps"]), room=10, drop=1),
        Column("description", "description", room=10, drop=3),
    ),
)

VERSIONS = Listing(
    "versions",
    lambda row: str(row["version"]),
    (
        Column("version", "version"),
        Column("loaded", lambda row: "yes" if row["loaded"] else "no"),
        Column("new jobs", lambda row: f"{row['new_jobs_percent']:g}%"),
        Column("in flight", "jobs"),
        Column("first loaded", "first_loaded_at", at=True, drop=1),
        Column("digest", lambda row: row["protocol"]["digest"], room=12, drop=2),
    ),
)

protocol_app = typer.Typer(help="List, show, check and compare protocols.", no_args_is_help=True)


_JobType = Annotated[
    str,
    typer.Argument(metavar="REQUEST_TYPE", help="Job type or id of the protocol.", autocompletion=completion.protocols),
]


@with_session
def protocols(session: Session) -> None:
    """List the protocols that a job can request."""
    items = [protocol.plain() for protocol in session.client.protocols()]
    session.show(PROTOCOLS, items)


@with_session
def show(session: Session, name: _JobType) -> None:
    """Print a protocol as JSON, with each step's schema."""
    rendering.write_json(find_protocol(session, name).plain())


@with_session
def versions(session: Session, name: _JobType) -> None:
    """List a protocol's versions, with their jobs in flight.

    Only callers who see all tenants get the counts, which can be several minutes
    old. You can remove an older version when its last job has ended.
    """
    found = session.client.protocol_versions(find_protocol(session, name).protocol_id).plain()
    session.show(VERSIONS, found["versions"], found)


def find_protocol(session: Session, name: str) -> Protocol:
    """Returns a protocol by its job type in any case, or by its id. Raises CliError with the most similar name,
    or with all names.
    """
    try:
        return session.client.protocol(name)
    except ProtocolNotFound as error:
        known = {each.request_type: each for each in session.client.protocols()}
        if found := known.get(name.upper()):
            return found
        near = difflib.get_close_matches(name.upper(), known, n=1)
        hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(known)}"
        raise CliError(f"unknown protocol {name}; {hint} ({error.code})", Exit.REFUSED) from error


def lint(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="Protocol files, or folders with protocol files.")
    ],
    topology: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="File of the bus topology. Default in a checkout: infra/bicep/topology.json."
        ),
    ] = None,
    json_: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Check protocol files without the API.

    The app runs the same checks when it loads protocols.

    The exit code is 1 if a check fails.
    """
    from lucius_client.cli.lint import Linter, services_of  # needs jsonschema, which no other command needs

    linter = Linter(services_of(topology))
    findings = [finding for file in _files(files) for finding in linter.check(file)]
    findings += linter.check_ramps()
    if json_:
        rendering.write_json([asdict(finding) for finding in findings])
    else:
        for finding in findings:
            rendering.write(str(finding))
        if not findings:
            unchecked = "" if linter.services is not None else "; services are unchecked without --topology"
            rendering.write(f"no fault found{unchecked}")
    if findings:
        raise typer.Exit(Exit.NOT_WELL)


@with_session
def diff(
    session: Session,
    old: Annotated[str, typer.Argument(metavar="OLD", help="A protocol file, or a job type such as OCR or OCR@1.")],
    new: Annotated[str, typer.Argument(metavar="NEW", help="A protocol file, or a job type such as OCR or OCR@1.")],
) -> None:
    """Compare two versions of a protocol.

    Shows added, removed and changed steps. Also shows the worst-case attempts
    and duration of a job, with the app's default settings.

    The exit code is 1 if NEW refuses requests that OLD accepts, or has other
    steps or payload schemas under the same version.
    """
    difference = compare(_definition(session, old), _definition(session, new))
    if session.for_people:
        for line in difference.lines():
            rendering.write(line)
    else:
        rendering.write_json(difference.plain())
    if difference.breaks:
        raise typer.Exit(Exit.NOT_WELL)


add(protocol_app, "list", protocols, "lucius protocol list")
add(protocol_app, "show", show, "lucius protocol show OCR")
add(protocol_app, "versions", versions, "lucius protocol versions OCR")
add(protocol_app, "lint", lint, "lucius protocol lint protocols")
add(
    protocol_app,
    "diff",
    diff,
    "lucius protocol diff protocols/ocr.json new/ocr.json",
    "lucius protocol diff OCR@1 ocr.json",
)


def _definition(session: Session, name: str) -> Definition:
    """Reads a definition from a path, or from the API by a job type or an id, optionally with @ and a version."""
    if name.endswith(".json") or Path(name).is_file():
        return read_definition(Path(name))
    return find_version(session, name)[0]


def find_version(session: Session, name: str) -> tuple[dict[str, Any], int | None]:
    """Returns a protocol by a name such as OCR or OCR@1, and the version in the name or None. Raises CliError."""
    job_type, at, number = name.partition("@")
    found = find_protocol(session, job_type)
    if not at:
        return found.plain(), None
    known = session.client.protocol_versions(found.protocol_id).versions
    for each in known:
        if str(each.version) == number:
            return each.protocol.plain(), each.version
    numbers = ", ".join(str(each.version) for each in known)
    raise CliError(f"version not found: {name}; use one of {numbers}", Exit.REFUSED)


def _files(paths: list[Path]) -> list[Path]:
    files = [file for path in paths for file in (sorted(path.glob("*.json")) if path.is_dir() else [path])]
    if not files:
        raise UsageError(f"no protocol file (*.json) in {', '.join(map(str, paths))}; name another file or folder")
    return files
