"""`lucius run`: the live log and the artifacts of a run."""

from __future__ import annotations

import codecs
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, BinaryIO

import typer

from lucius_client.cli import rendering
from lucius_client.cli.commands import add
from lucius_client.cli.exits import Exit, UsageError
from lucius_client.cli.options import JobId
from lucius_client.cli.session import WATCH_RETRIES, Session, with_session
from lucius_client.cli.tables import Column, Listing

#: value of --out for stdout
_STDOUT = Path("-")
Attempt = Annotated[
    int | None, typer.Option(min=1, metavar="N", help="Number of the attempt. Default: the last attempt.")
]

ARTIFACTS = Listing(
    "artifacts",
    "name",
    (
        Column("name", "name"),
        Column("bytes", "size"),
        Column("type", "media_type", room=8, drop=2),
        Column("written", "written_at", at=True, drop=1),
    ),
)

run_app = typer.Typer(help="Get the log and the artifacts of a pack's run.", no_args_is_help=True)


@with_session
def logs(
    session: Session,
    run: JobId,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Follow the log until the run has ended.")] = False,
) -> None:
    """Print the log of a run.

    With --follow, the exit code is 1 if the run did not succeed.
    """
    client = session.connect(WATCH_RETRIES) if follow else session.client
    _print(client.run_log(run, follow=follow))
    if follow:
        job = client.job(run)
        rendering.write(f"{job.jobId} {job.status}", stderr=True)
        if job.status != "SUCCEEDED":
            raise typer.Exit(Exit.NOT_WELL)


@with_session
def artifacts(session: Session, run: JobId, attempt: Attempt = None) -> None:
    """List the artifacts of a run."""
    session.show(ARTIFACTS, [each.plain() for each in session.client.run_artifacts(run, attempt=attempt)])


@with_session
def get(
    session: Session,
    run: JobId,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the artifact.")],
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="File to write. `-` is stdout. Default: NAME in the current folder."),
    ] = None,
    attempt: Attempt = None,
) -> None:
    """Download an artifact of a run."""
    if out == _STDOUT:
        session.client.run_artifact(run, name, sys.stdout.buffer, attempt=attempt)
        sys.stdout.flush()
        return
    path = out or Path(name)
    if out is None and (path.name != name or path.exists()):
        raise UsageError(f"{name}: the file exists, or the name has a folder; name another file with --out")
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with fresh.open("xb") as file:
            session.client.run_artifact(run, name, file, attempt=attempt)
        fresh.replace(path)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}; name another file with --out") from error
    finally:
        fresh.unlink(missing_ok=True)
    rendering.write(str(path))


def _print(pieces: Iterable[bytes]) -> None:
    """Writes the bytes unchanged to a pipe, and as text without control characters to a terminal."""
    out: BinaryIO = sys.stdout.buffer
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    for piece in pieces:
        if sys.stdout.isatty():
            sys.stdout.write(rendering.visible(decoder.decode(piece).replace("\r\n", "\n")))
        else:
            out.write(piece)
        sys.stdout.flush()
        out.flush()


add(run_app, "logs", logs, "lucius run logs job_bf466207 -f", "lucius run logs job_bf466207")
add(run_app, "artifacts", artifacts, "lucius run artifacts job_bf466207")
add(run_app, "get", get, "lucius run get job_bf466207 report.md --out -")
