"""`lucius`: submit documents, watch jobs, control them. Speaks HTTP only, beside the upload of documents."""

from __future__ import annotations

import os
import sys

import typer
from typer._completion_classes import completion_init

from lucius_client.cli.audit import audit_app
from lucius_client.cli.completion import PROGRAM, completion
from lucius_client.cli.exits import CliError, Exit
from lucius_client.cli.health import health
from lucius_client.cli.jobs import deadletters, job_app, jobs
from lucius_client.cli.login import login, logout
from lucius_client.cli.protocols import protocol_app, protocols
from lucius_client.cli.rejected import rejected_app
from lucius_client.cli.submit import submit

app = typer.Typer(
    help="Submit documents to LUCIUS and watch what becomes of them.",
    epilog="Exit codes: 0 done, 1 what was watched or checked is not well, 2 wrong usage, 3 the API refused, "
    "4 the API, the blob store or the issuer does not answer, 130 interrupted.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (submit, jobs, deadletters, protocols, health, login, logout, completion):
    app.command()(command)
app.add_typer(job_app, name="job")
app.add_typer(protocol_app, name="protocol")
app.add_typer(rejected_app, name="rejected")
app.add_typer(audit_app, name="audit")


def main() -> None:
    """Runs the command; every error is a line on stderr and an exit code, never a stack trace."""
    completion_init()
    try:
        app(prog_name=PROGRAM)
    except CliError as error:
        print(f"lucius: {error}", file=sys.stderr)
        sys.exit(error.exit)
    except KeyboardInterrupt:
        sys.exit(Exit.INTERRUPTED)
    except BrokenPipeError:  # `lucius jobs | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(Exit.OK)
