"""`lucius faults`: fault injection in a running Service Bus emulator, over its admin port."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Annotated, Any, NoReturn

import typer

app = typer.Typer(help="Inject faults into the Service Bus emulator.", no_args_is_help=True)

_TIMEOUT_S = 10
Admin = Annotated[
    str, typer.Option("--admin", metavar="URL", envvar="LUCIUS_BUS_ADMIN", help="URL of the emulator's admin port.")
]
_ADMIN = "http://127.0.0.1:5300"


@app.command("set")
def set_(
    fault: Annotated[
        str,
        typer.Argument(
            metavar="FAULT", help="drop, duplicate, delay, reorder, truncate, forget, slow, disconnect or throttle."
        ),
    ],
    lane: Annotated[int | None, typer.Option("--lane", metavar="N", help="Only messages of this lane.")] = None,
    entity: Annotated[
        str | None, typer.Option("--entity", metavar="NAME", help="Only topics and queues with this prefix.")
    ] = None,
    step_type: Annotated[
        str | None, typer.Option("--step-type", metavar="X", help="Only directives of this step type.")
    ] = None,
    tenant: Annotated[str | None, typer.Option("--tenant", metavar="T", help="Only messages of this tenant.")] = None,
    percent: Annotated[
        float | None, typer.Option("--percent", metavar="P", help="Percentage of matching messages. Default: 100.")
    ] = None,
    count: Annotated[
        int | None, typer.Option("--count", metavar="N", help="Maximum number of messages. Default: no limit.")
    ] = None,
    ms: Annotated[
        int | None, typer.Option("--ms", metavar="MS", help="Milliseconds of delay, reorder and slow. Default: 1000.")
    ] = None,
    admin: Admin = _ADMIN,
) -> None:
    """Add a rule, and print its number.

    docs/contributing/emulators/service-bus.md describes the faults.
    """
    given = {"lane": lane, "entity": entity, "step_type": step_type, "tenant": tenant}
    rule = _call(admin, "POST", "desk", {"fault": fault, **given, "percent": percent, "count": count, "ms": ms})
    typer.echo(rule["id"])


@app.command("list")
def list_(
    output: Annotated[str, typer.Option("--output", "-o", metavar="FORM", help="table or json.")] = "table",
    admin: Admin = _ADMIN,
) -> None:
    """Print the seed, the rules, and the messages with faults."""
    desk = _call(admin, "GET", "desk")
    if output == "json":
        typer.echo(json.dumps(desk, indent=1))
        return
    typer.echo(f"seed {desk['seed']}")
    for rule in desk["rules"]:
        narrowed = [
            f"{name}={rule[name]}" for name in ("lane", "entity", "step_type", "tenant") if rule[name] is not None
        ]
        limits = [
            f"{rule['percent']:g} %",
            *([f"at most {rule['count']}"] if rule["count"] else []),
            f"{rule['ms']} ms",
        ]
        typer.echo(f"rule {rule['id']}: {rule['fault']} {' '.join([*narrowed, *limits])}, struck {rule['struck']}")
    for strike in desk["run"]:
        typer.echo(
            f"{strike['entity']} #{strike['number']}: {strike['fault']} (rule {strike['rule']}) {strike['message_id']}"
        )


@app.command("clear")
def clear(
    rule: Annotated[int | None, typer.Argument(metavar="RULE", help="Number of the rule. Default: all rules.")] = None,
    admin: Admin = _ADMIN,
) -> None:
    """Remove a rule, or all rules.

    Without RULE, also clears the list of messages with faults and the counts.
    """
    removed = _call(admin, "DELETE", "desk" if rule is None else f"desk/{rule}")["removed"]
    if rule is not None and not removed:
        _refuse(f"rule not found: {rule}; list the rules with `lucius faults list`")


@app.command("seed")
def seed(
    number: Annotated[
        int, typer.Argument(metavar="SEED", help="Seed. The same seed, rules and messages give the same faults.")
    ],
    admin: Admin = _ADMIN,
) -> None:
    """Set the seed of the random choice of messages.

    The rules stay in effect. Their counts and the list of messages with faults are reset.
    """
    _call(admin, "POST", "desk/seed", {"seed": number})


def _call(admin: str, method: str, path: str, body: Any = None) -> Any:
    try:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{admin.rstrip('/')}/{path}", data, method=method)
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as response:
            return json.load(response)
    except urllib.error.HTTPError as error:
        with error:
            try:
                _refuse(str(json.load(error)["error"]))
            except (ValueError, KeyError, TypeError):
                _refuse(f"{admin} returned the unexpected status {error.code}; check --admin")
    except (OSError, ValueError) as error:
        _refuse(f"no bus emulator responds at {admin} ({error}); start the bus, or set --admin")


def _refuse(line: str) -> NoReturn:
    """Prints one line on stderr, and exits with code 2."""
    typer.echo(f"lucius faults: {' '.join(line.split())}", err=True)
    raise typer.Exit(2)
