"""`lucius webhook`: webhooks and their deliveries, and events for a program on this machine."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer

from lucius_client.cli import ids, rendering
from lucius_client.cli.commands import add
from lucius_client.cli.exits import Exit, UsageError
from lucius_client.cli.listen import listen
from lucius_client.cli.options import OneTenant, SearchedTenant
from lucius_client.cli.rendering import Json
from lucius_client.cli.session import Session, with_session
from lucius_client.cli.tables import LOG, Column, Listing, status
from lucius_client.webhook_calls import webhook_filter


class Format(StrEnum):
    CLOUDEVENTS = "cloudevents"
    SLACK = "slack"
    TEAMS = "teams"


HookId = Annotated[
    str, typer.Argument(metavar="ID", help="Id of a webhook, or the id's first characters."), ids.WEBHOOK
]
HookOrDefault = Annotated[
    str,
    typer.Argument(
        metavar="ID",
        help="Id of a webhook, or the id's first characters. `default` means the callback URLs of one tenant's jobs, "
        "and requires a tenant.",
    ),
    ids.WEBHOOK,
]
Types = Annotated[
    str | None,
    typer.Option("--type", help="Only events of these types, separated by commas, such as job.completed."),
]
JobTypes = Annotated[
    str | None, typer.Option("--job-type", help="Only events of these job types, separated by commas.")
]
Labels = Annotated[
    list[str] | None,
    typer.Option(
        "--label",
        metavar="KEY:VALUE",
        help="Only events of jobs with this label; repeatable. The jobs must have all the labels.",
    ),
]
Description = Annotated[str | None, typer.Option(help="Description, for people.")]

HOOKS = Listing(
    "webhooks",
    "hookId",
    (
        Column("webhook", "hookId"),
        Column("tenant", "tenant", room=8, drop=9),
        Column("url", "url", room=16, drop=1),
        Column("format", "format", drop=6),
        Column("state", status("state"), drop=2),
        Column("types", lambda hook: ",".join(hook["filter"]["types"]) or "all", room=8, drop=5),
        Column("failures", "failures", drop=4),
        Column("waits until", "waits_until", at=True, drop=8),
        Column("last success", "succeeded_at", at=True, drop=3),
        Column("oldest pending", "oldest_pending_at", at=True, wide=True),
        Column("description", "description", room=10, drop=7),
    ),
)
DELIVERIES = Listing(
    "deliveries",
    "number",
    (
        Column("number", "number"),
        Column("name", "name", room=8, drop=6),
        Column("event", "event_type", room=12),
        Column("job", "jobId", drop=1),
        Column("state", status("state")),
        Column("tries", "tries", drop=4),
        Column("response", lambda row: row["status"] or row["error"], room=8, drop=2),
        Column("last try", "tried_at", at=True, drop=3),
        Column("next try", "due_at", at=True, drop=5),
    ),
)

webhooks_app = typer.Typer(
    help="Create, list, update, delete and test webhooks.",
    no_args_is_help=True,
)


@with_session
def create(
    session: Session,
    url: Annotated[
        str,
        typer.Argument(
            metavar="URL",
            help="https URL of a public host, at port 443, that receives the events. The app setting "
            "LUCIUS_WEBHOOK_HOSTS allows other URLs.",
        ),
    ],
    format_: Annotated[Format, typer.Option("--format", help="Format of the body.")] = Format.CLOUDEVENTS,
    type_: Types = None,
    job_type: JobTypes = None,
    label: Labels = None,
    description: Description = None,
    after: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Also send retained events after this sequence number. 0 sends all. Default: only new events.",
        ),
    ] = None,
    tenant: OneTenant = None,
) -> None:
    """Create a webhook. Shows the signing secret once."""
    made = session.client.create_webhook(
        url,
        format=format_.value,
        types=_list(type_),
        job_types=_list(job_type),
        labels=_labels(label),
        description=description or "",
        after=after,
        tenant=tenant,
    )
    _show_secret(session, made.plain())


@with_session
def list_(session: Session, tenant: SearchedTenant = None) -> None:
    """List webhooks, oldest first.

    If the command searches tenants, the order applies to each.
    """
    found = ids.of_each_tenant(session.client, tenant, lambda each: session.client.webhooks(tenant=each))
    session.show(HOOKS, [each.plain() for each in found])


@with_session
def show(session: Session, webhook: HookOrDefault, tenant: SearchedTenant = None) -> None:
    """Show a webhook and the state of its deliveries."""
    session.show_one(HOOKS, session.client.webhook(webhook, tenant=tenant).plain())


@with_session
def change(
    session: Session,
    webhook: HookId,
    url: Annotated[str | None, typer.Option(help="New URL.")] = None,
    format_: Annotated[Format | None, typer.Option("--format", help="New format of the body.")] = None,
    type_: Types = None,
    job_type: JobTypes = None,
    label: Labels = None,
    every: Annotated[
        bool, typer.Option("--every", help="Remove the filter: send every event except events of webhooks.")
    ] = False,
    description: Description = None,
    enabled: Annotated[bool | None, typer.Option("--on/--off", help="Enable or disable the webhook.")] = None,
    tenant: SearchedTenant = None,
) -> None:
    """Update a webhook.

    --type, --job-type and --label together replace the whole filter.
    """
    lets_in = webhook_filter(_list(type_), _list(job_type), _labels(label))
    if every and lets_in:
        raise UsageError("--every removes the filter; omit --type, --job-type and --label")
    named = {"url": url, "format": format_.value if format_ else None, "description": description, "enabled": enabled}
    changes: dict[str, Any] = {name: value for name, value in named.items() if value is not None}
    if every or lets_in:
        changes["filter"] = lets_in
    if not changes:
        raise UsageError("change missing; give a change, for example --off")
    session.show_one(HOOKS, session.client.change_webhook(webhook, changes, tenant=tenant).plain())


@with_session
def remove(session: Session, webhook: HookId, tenant: SearchedTenant = None) -> None:
    """Delete a webhook and its waiting deliveries."""
    session.client.remove_webhook(webhook, tenant=tenant)
    if session.for_people:
        rendering.write(f"deleted {webhook}")


@with_session
def send_test(session: Session, webhook: HookId, tenant: SearchedTenant = None) -> None:
    """Send a test event now.

    The exit code is 1 if the delivery failed.
    """
    found = session.client.test_webhook(webhook, tenant=tenant).plain()
    if session.for_people:
        rendering.write(f"{'delivered' if found['delivered'] else 'failed'}: {_answer(found)}, {found['took_ms']} ms")
    else:
        session.show(Listing("tests", _answer, ()), [found], found)
    if not found["delivered"]:
        raise typer.Exit(Exit.NOT_WELL)


@with_session
def rotate(session: Session, webhook: HookOrDefault, tenant: SearchedTenant = None) -> None:
    """Create a new secret. The old secret also signs for a day.

    A second rotation within the day revokes the oldest secret immediately.
    """
    _show_secret(session, session.client.rotate_webhook(webhook, tenant=tenant).plain())


@with_session
def resume(session: Session, webhook: HookId, tenant: SearchedTenant = None) -> None:
    """Enable a webhook and send its waiting deliveries now.

    The webhook can be suspended, disabled, or waiting after failed attempts.
    LUCIUS sends the oldest delivery first.
    """
    session.show_one(HOOKS, session.client.resume_webhook(webhook, tenant=tenant).plain())


@with_session
def secret(session: Session, tenant: OneTenant = None) -> None:
    """Print the signing secret of the jobs' callback URLs."""
    found = session.client.callback_secret(tenant=tenant).plain()
    if session.for_people:
        rendering.write(found["secret"])
    else:
        session.show(Listing("secrets", "secret", ()), [found], found)


@with_session
def deliveries(
    session: Session,
    webhook: HookOrDefault,
    state: Annotated[
        str | None, typer.Option(help="Only deliveries in this state: PENDING, DELIVERED or DEAD.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of items. Pending items come first.")] = 50,
    tenant: SearchedTenant = None,
) -> None:
    """List the deliveries of a webhook, with their results."""
    found = session.client.deliveries(webhook, state=state.upper() if state else None, tenant=tenant, limit=limit)
    session.show(DELIVERIES, [each.plain() for each in found])


@with_session
def log(session: Session, webhook: HookId, tenant: SearchedTenant = None) -> None:
    """List the changes of a webhook, in order."""
    found = session.client.webhook_log(webhook, tenant=tenant)
    session.show(LOG, [each.plain() for each in found])


@with_session
def redeliver(
    session: Session,
    webhook: HookOrDefault,
    number: Annotated[
        int, typer.Argument(min=1, metavar="NUMBER", help="Number of the delivery in `lucius webhook deliveries`.")
    ],
    name: Annotated[str | None, typer.Option(help="Name of the callback URL, for the webhook `default`.")] = None,
    tenant: SearchedTenant = None,
) -> None:
    """Start the next attempt of a delivery now.

    The delivery can be pending, delivered or dead. The attempt waits while the
    webhook is disabled, suspended, or waiting after failed attempts.
    """
    found = session.client.redeliver(webhook, number, name=name, tenant=tenant).plain()
    session.show_one(DELIVERIES, found)


add(
    webhooks_app,
    "create",
    create,
    "lucius webhook create https://hooks.example.com/lucius --type job.failed",
    "lucius webhook create https://hooks.slack.com/services/T0/B0/X --format slack",
)
add(webhooks_app, "list", list_, "lucius webhook list --tenant acme")
add(webhooks_app, "show", show, "lucius webhook show hook_6f1c0d3a")
add(webhooks_app, "update change", change, "lucius webhook update hook_6f1c0d3a --off")
add(webhooks_app, "delete remove", remove, "lucius webhook delete hook_6f1c0d3a")
add(webhooks_app, "test", send_test, "lucius webhook test hook_6f1c0d3a")
add(webhooks_app, "rotate", rotate, "lucius webhook rotate hook_6f1c0d3a")
add(webhooks_app, "resume", resume, "lucius webhook resume hook_6f1c0d3a")
add(webhooks_app, "secret", secret, "lucius webhook secret --tenant acme")
add(webhooks_app, "deliveries", deliveries, "lucius webhook deliveries hook_6f1c0d3a --state dead")
add(webhooks_app, "redeliver", redeliver, "lucius webhook redeliver hook_6f1c0d3a 1043")
add(webhooks_app, "log", log, "lucius webhook log hook_6f1c0d3a")
add(webhooks_app, "listen", listen, "lucius webhook listen --forward http://127.0.0.1:3000/ --tenant acme")


def _list(text: str | None) -> list[str] | None:
    return [each.strip() for each in text.split(",")] if text is not None else None


def _labels(given: list[str] | None) -> dict[str, str] | None:
    if not given:
        return None
    if wrong := next((each for each in given if ":" not in each), None):
        raise UsageError(f"--label {wrong}: must be KEY:VALUE")
    return {name: value for name, _, value in (each.partition(":") for each in given)}


def _answer(found: Json) -> str:
    return str(found["status"] or found["error"])


def _show_secret(session: Session, hook: Json) -> None:
    session.show_one(HOOKS, hook)
    if session.for_people:
        # `lucius webhook secret` shows the secret of `default` again
        once = "" if hook["hookId"] == "default" else ", shown only now"
        rendering.write(f"secret{once}: {hook['secret']}")
