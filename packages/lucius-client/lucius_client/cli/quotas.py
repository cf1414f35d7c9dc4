"""`lucius quota`: quotas, their limits, their waiting jobs and their changes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

import typer

from lucius_client.cli import rendering
from lucius_client.cli.commands import add
from lucius_client.cli.exits import NAME_A_TENANT, UsageError
from lucius_client.cli.instants import instant_ahead
from lucius_client.cli.options import tenant_option, type_option
from lucius_client.cli.quota_tables import GATES, QUOTA_LOG, WAITING, change_line
from lucius_client.cli.rendering import Json
from lucius_client.cli.rules_file import BREAKER_NUMBERS, read_rules
from lucius_client.cli.session import Session, with_session
from lucius_client.models import Quota

Tenant = Annotated[
    str | None,
    tenant_option(
        "The tenant. `*` selects the limits for every tenant. Default: the login's tenant. Without --gate, "
        "required if you have no login or use --token."
    ),
]
#: for commands that do not accept `*`
OneTenant = Annotated[
    str | None,
    tenant_option(
        "The tenant. Default: the login's tenant. Without --gate, required if you have no login or use --token."
    ),
]
Gate = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Quota over all tenants, such as platform, mode:BURST, type:OCR, service:ocr, lane:3. --tenant then has "
        "no effect.",
    ),
]
Type = Annotated[str | None, type_option("Quota of this job type.")]
Source = Annotated[str | None, typer.Option(help="Quota of jobs with this `source`.")]
Reason = Annotated[str, typer.Option(help="Reason for the quota's log, at most 1,024 characters.")]
Until = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="End of the hold or throttle, as a timestamp or a duration: 2026-01-27T10:00:00Z, 90m, 2h, 3d. "
        "Default: until `lucius quota resume`.",
    ),
]
Limit = Annotated[int, typer.Option(min=1, help="Maximum number of items.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the changes. Write nothing.")]
#: help of limits that can be removed
_Number = "`none` removes the limit."

quota_app = typer.Typer(help="List, show, set, delete, hold, throttle and resume quotas.", no_args_is_help=True)


@with_session
def list_(
    session: Session,
    tenant: Annotated[
        str | None,
        tenant_option(
            "The tenant. `*` selects the quotas over all tenants and the limits for every tenant. Default: the tenant "
            "of the login, or of a token for one tenant, else all tenants."
        ),
    ] = None,
    limit: Limit = 100,
) -> None:
    """List quotas of a tenant or of all tenants.

    The list of all tenants omits tenants without own limits, holds and throttles.
    """
    _show(session, list(session.client.quotas(tenant=tenant, limit=limit)))


@with_session
def show(session: Session, tenant: Tenant = None, type_: Type = None, source: Source = None, gate: Gate = None) -> None:
    """Show the limits, active jobs and waiting jobs of a quota."""
    session.show_one(GATES, _known(session, tenant, type_, source, gate).plain())


@with_session
def set_(
    session: Session,
    reason: Reason,
    tenant: Tenant = None,
    type_: Type = None,
    source: Source = None,
    gate: Gate = None,
    max_active: Annotated[str | None, typer.Option(metavar="N", help=f"Maximum active jobs. {_Number}")] = None,
    max_per_hour: Annotated[str | None, typer.Option(metavar="N", help=f"Rate in starts per hour. {_Number}")] = None,
    burst: Annotated[
        str | None,
        typer.Option(
            metavar="N",
            help="Maximum starts at the same time. `none` restores the default, the rate divided by 60, rounded up.",
        ),
    ] = None,
    max_staged: Annotated[
        str | None,
        typer.Option(metavar="N", help="Maximum waiting jobs of the tenant. `none` restores the default, 1,000."),
    ] = None,
    emergency_max_active: Annotated[
        str | None,
        typer.Option(
            metavar="N",
            help="Maximum active emergency jobs that skip the other limits, but neither a hold nor an open circuit "
            "breaker. With `none`, emergency jobs count as jobs of high priority.",
        ),
    ] = None,
    weight: Annotated[
        str | None,
        typer.Option(
            metavar="N", help="Weight of the tenant in quotas over all tenants. `none` restores the default, 1."
        ),
    ] = None,
    breaker: Annotated[
        str | None,
        typer.Option(
            metavar="on|none|NAME=N,...",
            help="Circuit breaker of a job type, which stops starts if failure_rate is reached. `on` adds a breaker "
            "with the defaults, and `none` removes the breaker. Names: failure_rate (above 0, at most 1), min_calls, "
            "cooldown_s (seconds), and min_tenants for a type over all tenants.",
        ),
    ] = None,
    dry_run: DryRun = False,
) -> None:
    """Set limits of a quota. Omitted limits do not change.

    A quota with own limits ignores the limits for every tenant and the limits of
    the settings.
    """
    given = {
        "max_active": max_active,
        "max_per_hour": max_per_hour,
        "burst": burst,
        "max_staged": max_staged,
        "emergency_max_active": emergency_max_active,
        "weight": weight,
    }
    numbers: dict[str, Any] = {name: _number(name, text) for name, text in given.items() if text is not None}
    if breaker is not None:
        numbers["breaker"] = _breaker_numbers(breaker)
    if not numbers:
        raise UsageError("limit missing; give a limit, for example --max-active 2")
    known = _known(session, tenant, type_, source, gate)
    _changed(session, session.client.set_quota(known, numbers, reason=reason, dry_run=dry_run).plain())


@with_session
def delete(
    session: Session,
    reason: Reason,
    tenant: Tenant = None,
    type_: Type = None,
    source: Source = None,
    gate: Gate = None,
    dry_run: DryRun = False,
) -> None:
    """Delete the limits of a quota.

    The limits for every tenant are then in effect, else the limits of the
    settings. A hold or a throttle stays.
    """
    known = _known(session, tenant, type_, source, gate)
    _changed(session, session.client.delete_quota(known, reason=reason, dry_run=dry_run).plain())


@with_session
def hold(
    session: Session,
    reason: Reason,
    tenant: OneTenant = None,
    type_: Type = None,
    source: Source = None,
    gate: Gate = None,
    until: Until = None,
) -> None:
    """Stop starting jobs. Running jobs continue.

    With `--gate service:S` or `--gate lane:N`, new attempts of steps do not
    start. Attempts in flight continue.
    """
    end = instant_ahead("--until", until)
    change = session.client.hold_gate(**_names(tenant, type_, source, gate), reason=reason, until=end)
    _changed(session, change.plain())


@with_session
def throttle(
    session: Session,
    reason: Reason,
    max_per_hour: Annotated[int, typer.Option(min=1, metavar="N", help="Rate in starts per hour.")],
    tenant: OneTenant = None,
    type_: Type = None,
    source: Source = None,
    gate: Gate = None,
    until: Until = None,
) -> None:
    """Limit the start rate of a quota, until a time or a resume.

    If the quota also has a rate limit, the lower rate is in effect. A service or
    a lane cannot be throttled.
    """
    change = session.client.throttle_gate(
        **_names(tenant, type_, source, gate),
        max_per_hour=max_per_hour,
        reason=reason,
        until=instant_ahead("--until", until),
    )
    _changed(session, change.plain())


@with_session
def resume(
    session: Session,
    reason: Reason,
    tenant: OneTenant = None,
    type_: Type = None,
    source: Source = None,
    gate: Gate = None,
) -> None:
    """End the hold and the throttle of a quota.

    A caller of one tenant ends only holds and throttles that callers of the
    tenant set.

    Steps that wait for a dispatch limit (`--gate service:S` or `--gate lane:N`)
    continue at their next check, at most 5.5 minutes later. `lucius job
    explain` shows the time of the check.
    """
    _changed(session, session.client.resume_gate(**_names(tenant, type_, source, gate), reason=reason).plain())


@with_session
def reset(session: Session, reason: Reason, tenant: Tenant = None, type_: Type = None, gate: Gate = None) -> None:
    """Close a job type's circuit breaker and reset the counts."""
    known = _known(session, tenant, type_, None, gate)
    _changed(session, session.client.reset_breaker(known, reason=reason).plain())


@with_session
def waiting(
    session: Session,
    tenant: Tenant = None,
    type_: Type = None,
    source: Source = None,
    gate: Gate = None,
    limit: Limit = 50,
) -> None:
    """List jobs waiting for a quota, in order of admission.

    The API lists the first 1,000 jobs. For a quota over all tenants, the list has
    only jobs of tenants that have slots or requested slots.
    """
    known = _known(session, tenant, type_, source, gate)
    rows = [each.plain() for each in session.client.waiting(known, limit=limit)]
    session.show(WAITING, rows)


@with_session
def log(
    session: Session,
    tenant: Tenant = None,
    type_: Type = None,
    source: Source = None,
    gate: Gate = None,
    limit: Limit = 1000,
) -> None:
    """List the changes of a quota, oldest first."""
    known = _known(session, tenant, type_, source, gate)
    rows = [each.plain() for each in session.client.quota_log(known, limit=limit)]
    session.show(QUOTA_LOG, rows)


@with_session
def apply(
    session: Session,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="YAML file with a list of limits under `quotas:`.")],
    reason: Annotated[
        str | None,
        typer.Option(
            help="Reason for each quota's log, at most 1,024 characters. Default: `lucius quota apply` and the file's "
            "name."
        ),
    ] = None,
    dry_run: DryRun = False,
) -> None:
    """Set the limits of each quota in a file.

    The command removes limits that the file omits for a quota. Quotas that the
    file omits do not change.
    """
    changes = []
    for rule in read_rules(file):
        known = session.client.quota(rule.tenant, job_type=rule.job_type, source=rule.source, name=rule.gate)
        why = reason or f"lucius quota apply {file.name}"
        changes.append(session.client.set_quota(known, rule.numbers, reason=why, dry_run=dry_run).plain())
    if not session.for_people:
        session.show(GATES, [each["quota"] for each in changes], changes)
        return
    for change in changes:
        rendering.write(change_line(change))


_WHOSE = "--tenant acme --type OCR"
add(quota_app, "list", list_, "lucius quota list", "lucius quota list --tenant acme -o wide")
add(quota_app, "show", show, "lucius quota show --tenant acme", "lucius quota show --gate platform")
add(
    quota_app,
    "set",
    set_,
    f"lucius quota set {_WHOSE} --max-active 2 --reason 'a small contract'",
    "lucius quota set --tenant acme --max-per-hour none --reason 'no rate limit needed' --dry-run",
)
add(quota_app, "delete", delete, f"lucius quota delete {_WHOSE} --reason 'the default is enough'")
add(quota_app, "hold", hold, "lucius quota hold --tenant acme --reason 'maintenance window' --until 2h")
add(quota_app, "throttle", throttle, f"lucius quota throttle {_WHOSE} --max-per-hour 60 --until 1h --reason spike")
add(quota_app, "resume", resume, "lucius quota resume --tenant acme --reason 'maintenance is over'")
add(quota_app, "reset", reset, f"lucius quota reset {_WHOSE} --reason 'the service is repaired'")
add(quota_app, "waiting", waiting, "lucius quota waiting --tenant acme", f"lucius quota waiting {_WHOSE}")
add(quota_app, "log", log, "lucius quota log --tenant acme")
add(quota_app, "apply", apply, "lucius quota apply quotas.yaml --dry-run", "lucius quota apply quotas.yaml")


def _names(tenant: str | None, type_: str | None, source: str | None, gate: str | None) -> dict[str, str | None]:
    if gate is not None:
        if type_ is not None or source is not None:
            raise UsageError("--gate names one quota over all tenants; omit --type and --source")
        return {"name": gate}
    if tenant is None:
        raise UsageError(f"{NAME_A_TENANT}, or name a quota over all tenants with --gate")
    return {"tenant": tenant, "job_type": type_, "source": source}


def _known(session: Session, tenant: str | None, type_: str | None, source: str | None, gate: str | None) -> Quota:
    return session.client.quota(**_names(tenant, type_, source, gate))


def _number(name: str, text: str) -> int | None:
    if text == "none":
        return None
    if not (text.isascii() and text.isdecimal() and len(text) <= 10):
        raise UsageError(f"--{name.replace('_', '-')} {text}: must be a whole number, or none")
    return int(text)


def _breaker_numbers(text: str) -> dict[str, float | None] | None:
    """Parses `on`, `none`, or numbers as in `failure_rate=0.5,cooldown_s=30`, in which a value can also be `none`.
    Raises UsageError.
    """
    if text in ("on", "none"):
        return {} if text == "on" else None
    numbers: dict[str, float | None] = {}
    for part in text.split(","):
        name, _, value = part.partition("=")
        if name not in BREAKER_NUMBERS or not re.fullmatch(r"none|\d{1,6}(\.\d{1,6})?", value, re.ASCII):
            raise UsageError(f"--breaker {text}: must be on, none, or NAME=N,...; names: {', '.join(BREAKER_NUMBERS)}")
        numbers[name] = None if value == "none" else float(value) if "." in value else int(value)
    return numbers


def _show(session: Session, quotas: list[Quota]) -> None:
    session.show(GATES, [each.plain() for each in quotas])


def _changed(session: Session, change: Json) -> None:
    if not session.for_people:
        session.show(GATES, [change["quota"]], change)
        return
    rendering.write(f"{change_line(change)}\n")
    session.show_one(GATES, change["quota"])
