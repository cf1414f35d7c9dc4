"""`lucius service`: commands for teams that write a platform service. `lucius` loads this module by its entry point."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

app = typer.Typer(help="Create, verify and load-test a platform service.", no_args_is_help=True)

#: options of more than one command
_StepType = Annotated[str, typer.Option("--step-type", metavar="X", help="Step type of the service.")]
_Bus = Annotated[
    str,
    typer.Option(
        "--bus",
        metavar="CONNECTION",
        envvar="LUCIUS_SERVICEBUS_CONNECTION",
        help="Connection string of the Service Bus namespace.",
    ),
]
_Blob = Annotated[
    str,
    typer.Option(
        "--blob", metavar="CONNECTION", envvar="LUCIUS_BLOB_CONNECTION", help="Connection string of the blob account."
    ),
]
_Subscription = Annotated[
    str,
    typer.Option(
        "--subscription", metavar="NAME", help="Name of the subscription. Default: the step type in lower case."
    ),
]
_Lane = Annotated[
    int, typer.Option("--lane", metavar="N", help="Lane to use. No other program may read replies of the lane.")
]


@app.callback()
def _group() -> None:
    """Keeps the name of a command in the command line, even if the group has only one command."""


@app.command("new")
def new(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Name of the service and of its subscription, for example summary.")
    ],
    step_type: Annotated[
        str, typer.Option("--step-type", metavar="X", help="Step type of the service, for example SUMMARY.")
    ],
    folder: Annotated[
        Path,
        typer.Option(
            "--dir", metavar="DIR", help="Checkout of LUCIUS, or another folder. Default: the current folder."
        ),
    ] = Path(),
) -> None:
    """Create a service from a template.

    Writes code, test, payload schema, protocol, topology entry and Dockerfile.
    Exits with 2 if the service exists, a name is invalid, or a file cannot be read or written.
    """
    from lucius_service.commands.new import NotMade, make

    try:
        made = make(name, step_type, folder)
    except NotMade as error:
        refuse(str(error))
    for path in made.files:
        typer.echo(path)
    typer.echo(made.next_steps)


@app.command("verify")
def verify(
    step_type: _StepType,
    sample: Annotated[
        Path,
        typer.Option(
            "--sample",
            metavar="FILE",
            help="File with a directive that must succeed: a JSON object with input_ref and payload.",
        ),
    ],
    bus: _Bus,
    blob: _Blob,
    slow: Annotated[
        Path | None,
        typer.Option(
            "--slow",
            metavar="FILE",
            help="File in the form of --sample, with a directive whose work takes more than twice --cadence.",
        ),
    ] = None,
    command: Annotated[
        str | None,
        typer.Option(
            "--command", metavar="COMMAND", help="Command that starts the service. Some checks restart the service."
        ),
    ] = None,
    callback: Annotated[
        str | None,
        typer.Option("--callback", metavar="URL", help="URL at which the service reaches this command over HTTP."),
    ] = None,
    service: Annotated[
        str,
        typer.Option(
            "--service",
            metavar="NAME",
            help="Name and version of the service in the report. Default: the step type in lower case.",
        ),
    ] = "",
    subscription: _Subscription = "",
    lane: _Lane = 0,
    cadence: Annotated[
        float,
        typer.Option(
            "--cadence", metavar="S", help="Expected seconds between heartbeats. The maximum is twice this time."
        ),
    ] = 30.0,
    wait: Annotated[
        float | None,
        typer.Option(
            "--wait",
            metavar="S",
            help="Maximum seconds to wait for a RESULT. Default: 120; 330 if a message lock must expire first.",
        ),
    ] = None,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FORM", help="Output format: table, json or junit.")
    ] = "table",
) -> None:
    """Verify a running service in any language.

    Sends directives as LUCIUS does. Exits with 1 if a check failed.
    Exits with 2 if an option or a sample is invalid, or if the bus or the blob account cannot be used.
    Also exits with 2 if --callback cannot be served, or --command cannot start.

    Uses the lane of --lane, and an adjacent lane if the bus has one.
    No other program may read the replies of these lanes at the same time.
    Use a bus without LUCIUS, and a blob account that no other program uses.
    """
    import asyncio

    from lucius_service.contract.bench import NotRun, Options
    from lucius_service.contract.report import verify as run

    if output not in ("table", "json", "junit"):
        refuse(f"-o {output}: must be table, json or junit")
    options = Options(
        step_type,
        bus,
        blob,
        read_sample(sample),
        slow=None if slow is None else read_sample(slow),
        command=command,
        callback=callback,
        subscription=subscription,
        lane=lane,
        cadence_s=cadence,
    )
    if wait is not None:
        options = replace(options, result_s=wait, again_s=wait)
    try:
        report = asyncio.run(run(options, service or step_type.lower()))
    except NotRun as error:
        refuse(str(error))
    typer.echo(getattr(report, output)())
    raise typer.Exit(0 if report.passed else 1)


@app.command("load")
def load(
    mix: Annotated[
        list[str],
        typer.Option(
            "--mix",
            metavar="FILE[=SHARE]",
            help="File with a directive or a job request, and its share of the load. Default share: 1. Repeatable.",
        ),
    ],
    step_type: Annotated[
        str, typer.Option("--step-type", metavar="X", help="Send directives to the service of this step type.")
    ] = "",
    bus: _Bus = "",
    blob: _Blob = "",
    api: Annotated[str, typer.Option("--api", metavar="URL", help="Post whole jobs to this HTTP API.")] = "",
    token: Annotated[
        str, typer.Option("--token", envvar="LUCIUS_TOKEN", metavar="TOKEN", help="Bearer token for the API.")
    ] = "",
    rate: Annotated[
        float, typer.Option("--rate", metavar="N", min=0.001, help="Directives or jobs per second.")
    ] = 10.0,
    count: Annotated[
        int, typer.Option("--count", metavar="N", min=1, help="Total number of directives or jobs.")
    ] = 100,
    seed: Annotated[
        int, typer.Option("--seed", metavar="SEED", help="Seed of the random choice among the files of --mix.")
    ] = 0,
    subscription: _Subscription = "",
    lane: _Lane = 0,
    wait: Annotated[
        float, typer.Option("--wait", metavar="S", help="Maximum seconds to wait after the last send.")
    ] = 120.0,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FORM", help="Output format: table or json.")
    ] = "table",
) -> None:
    """Send directives or jobs at a steady rate; print latencies.

    Exits with 1 if a directive has no RESULT, or a job was not accepted or has not ended.
    Exits with 2 if an option or a file is invalid, or if the bus or the blob account cannot be used.
    Also exits with 2 if the API does not respond, or refuses the dry run of a request.
    """
    import asyncio

    from lucius_service import load as driving
    from lucius_service import load_jobs
    from lucius_service.contract.bench import NotRun, Options

    if output not in ("table", "json"):
        refuse(f"-o {output}: must be table or json")
    if bool(api) == bool(step_type):
        refuse("give either --step-type, for directives, or --api, for whole jobs")
    if step_type and not (bus and blob):
        refuse("--step-type needs --bus and --blob")
    try:
        shares = [driving.read_mix(each) for each in mix]
    except ValueError as error:
        refuse(f"--mix: {error}")
    samples = [(read_sample(Path(name)), share) for name, share in shares]
    plan = driving.Plan(rate, count, samples, seed)
    try:
        if api:
            measured = asyncio.run(load_jobs.drive(load_jobs.Api(api, token, wait), plan))
        else:
            options = Options(step_type, bus, blob, samples[0][0], subscription=subscription, lane=lane, result_s=wait)
            measured = asyncio.run(driving.drive(options, plan))
    except NotRun as error:
        refuse(str(error))
    typer.echo(driving.as_json(measured) if output == "json" else measured.table())
    raise typer.Exit(1 if measured.lost else 0)


def read_sample(path: Path) -> dict[str, Any]:
    """Reads the fields of a directive, or a job request, from a file. Exits with code 2 and one line if the file is
    invalid.
    """
    try:
        sample = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        refuse(f"{path}: {' '.join(str(error).split())}")
    if not isinstance(sample, dict) or not sample.get("input_ref"):
        refuse(f"{path} must be a JSON object with input_ref")
    return sample


def refuse(line: str) -> NoReturn:
    """Exits with code 2 and one line on stderr."""
    typer.echo(f"lucius service: {line}", err=True)
    raise typer.Exit(2)
