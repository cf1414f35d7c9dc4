"""The command `lucius`: its commands and its exit codes.

Commands use the HTTP API. Uploads of documents and reads of results use the blob store, `login` uses the token issuer,
and `webhook listen` sends events to a local program.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from enum import StrEnum
from importlib.metadata import EntryPoint, entry_points
from typing import Annotated

import typer
from typer._click.exceptions import ClickException, NoArgsIsHelpError
from typer._click.exceptions import UsageError as ClickUsageError
from typer._completion_classes import completion_init
from typer._completion_shared import get_completion_script
from typer.core import TyperGroup

from lucius_client.cli import rendering
from lucius_client.cli.audit import audit_app, orch_app
from lucius_client.cli.bulk import bulk_app
from lucius_client.cli.commands import add
from lucius_client.cli.events import event_app, events
from lucius_client.cli.exits import CliError, Exit
from lucius_client.cli.failures import deadletter_app, deadletters, rejected_app
from lucius_client.cli.incidents import incident_app
from lucius_client.cli.jobs import job_app, jobs
from lucius_client.cli.login import login, logout
from lucius_client.cli.protocols import protocol_app, protocols
from lucius_client.cli.quotas import quota_app
from lucius_client.cli.receipts import receipts
from lucius_client.cli.runs import run_app
from lucius_client.cli.server import client_version, health, version
from lucius_client.cli.status import status
from lucius_client.cli.submit import submit
from lucius_client.cli.tenants import tenant_app
from lucius_client.cli.usage import source_app, usage
from lucius_client.cli.webhooks import webhooks_app

PROGRAM = "lucius"
#: group of entry points by which other packages add command groups (typer.Typer) under their names
GROUP = "lucius.commands"
#: environment variable with which a shell's completion script calls the program
VARIABLE = "_LUCIUS_COMPLETE"


class Shell(StrEnum):
    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(shell: Annotated[Shell, typer.Argument(help="Shell that runs the script.")]) -> None:
    """Print the completion script of a shell.

    The script completes commands, options, job ids, tenants and protocols.
    """
    rendering.write(get_completion_script(prog_name=PROGRAM, complete_var=VARIABLE, shell=shell.value))


app = typer.Typer(
    help="Submit documents to LUCIUS, and watch and control the jobs.",
    epilog="Exit codes:\n\n"
    "0: the command succeeded\n\n"
    "1: a job failed or was cancelled, a check, delivery or bulk operation failed, jobs differ, an export lacks data, "
    "or a problem needs an operator\n\n"
    "2: an option or a file is invalid, a bundle is broken, a result cannot be read, or the login has expired\n\n"
    "3: the API, the blob store or the token issuer refused the request, the job has no result, or no named key "
    "signed the bundle\n\n"
    "4: the API, the blob store or the token issuer does not respond, or the blob store refused an upload\n\n"
    "130: interrupted",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(asked: bool) -> None:
    if asked:
        rendering.write(f"{PROGRAM} {client_version()}")
        raise typer.Exit


@app.callback()
def root(
    version_: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version of this client."),
    ] = False,
) -> None:
    pass


add(
    app,
    "submit",
    submit,
    "lucius submit report.pdf --protocol OCR --tenant acme --watch",
    "lucius submit 'scans/*.png' -p OCR --tenant acme --label batch:one -o ids",
)
for group, names in (
    (job_app, "job"),
    (run_app, "run"),
    (deadletter_app, "deadletter"),
    (incident_app, "incident"),
    (bulk_app, "bulk"),
    (quota_app, "quota"),
    (source_app, "source"),
    (tenant_app, "tenant"),
    (event_app, "event"),
    (webhooks_app, "webhook webhooks"),
    (protocol_app, "protocol"),
    (rejected_app, "rejected"),
    (audit_app, "audit"),
):
    name, *older = names.split()
    app.add_typer(group, name=name)
    for each in older:
        app.add_typer(group, name=each, hidden=True)
app.add_typer(orch_app, name="orch", hidden=True)
add(app, "status", status, "lucius status", "lucius status --tenant acme -o json")
add(app, "usage", usage, "lucius usage --tenant acme --since 1d --by type")
add(app, "receipts", receipts, "lucius receipts --tenant acme --since 1d --by type")
add(app, "health", health, "lucius health", "lucius health -o json")
add(app, "version", version, "lucius version")
add(app, "login", login, "lucius login --as acme --scope orch:read --scope orch:operate")
add(app, "logout", logout, "lucius logout")
add(app, "completion", completion, 'eval "$(lucius completion bash)"', "lucius completion fish | source")
# commands under older names
for name, command, example in (
    ("jobs", jobs, "lucius job list"),
    ("deadletters", deadletters, "lucius deadletter list"),
    ("events", events, "lucius event list"),
    ("protocols", protocols, "lucius protocol list"),
):
    app.command(name, hidden=True, epilog=f"Current name: {example}")(command)


def add_commands(entries: Iterable[EntryPoint]) -> None:
    """Adds the command groups of other packages. A group that cannot be loaded becomes a command that fails."""
    own = {group.name for group in app.registered_groups} | {each.name for each in app.registered_commands}
    own |= {each.callback.__name__ for each in app.registered_commands if each.callback}
    for entry in sorted(entries, key=lambda each: each.name):
        if entry.name in own:
            continue  # names of this package have precedence
        own.add(entry.name)
        try:
            app.add_typer(entry.load(), name=entry.name)
        except Exception as error:  # another package may raise any error
            app.command(entry.name, hidden=True)(_broken(f"{entry.value}: {type(error).__name__}: {error}"))


def _broken(why: str) -> Callable[[], None]:
    def fail() -> None:
        raise CliError(f"this command cannot be loaded: {' '.join(why.split())}; install its package again")

    return fail


add_commands(entry_points(group=GROUP))


def _usage_error(error: ClickException) -> str:
    """Formats a usage error: `no such command 'add'; commands: create, list (see lucius webhook --help)`."""
    text = error.format_message().rstrip(".").replace(". Did you mean", "; did you mean")
    context = error.ctx if isinstance(error, ClickUsageError) else None
    group = context.command if context is not None else None
    if text.startswith("No such command") and "did you mean" not in text and isinstance(group, TyperGroup):
        text += f"; commands: {', '.join(name for name, each in group.commands.items() if not each.hidden)}"
    path = context.command_path if context is not None else PROGRAM
    return f"{text[:1].lower()}{text[1:]} (see {path} --help)"


def main() -> None:
    """Runs the command. An expected error is a message on stderr and an exit code, without a stack trace."""
    completion_init()
    try:
        # commands return None; a number is the code of typer.Exit
        sys.exit(app(prog_name=PROGRAM, standalone_mode=False))
    except NoArgsIsHelpError as error:
        error.show()
        sys.exit(Exit.USAGE)
    except ClickException as error:
        rendering.write(f"lucius: {_usage_error(error)}", stderr=True)
        sys.exit(error.exit_code)
    except typer.Abort:
        sys.exit(Exit.INTERRUPTED)
    except CliError as error:
        rendering.write(f"lucius: {error}", stderr=True)
        sys.exit(error.exit)
    except KeyboardInterrupt:
        sys.exit(Exit.INTERRUPTED)
    except BrokenPipeError:  # for example `lucius job list | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(Exit.OK)
