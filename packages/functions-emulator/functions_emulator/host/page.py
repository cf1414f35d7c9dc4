"""The page at `/emulator`: functions, and orchestrations with their controls. Plain HTML and forms, no scripts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from typing import Any
from urllib.parse import quote

from functions_emulator.durable.client import Client
from functions_emulator.durable.engine import Engine
from functions_emulator.durable.events import Event, Instance, Kind, Status
from functions_emulator.durable.history_view import show_history
from functions_emulator.host.functions import Function
from functions_emulator.host.indexing import App

_PAGE_SIZE = 100

_STYLE = """
:root { color-scheme: light dark; --line: light-dark(#d8dce2, #3a3f47); --soft: light-dark(#5b6470, #9aa3af);
  --bad: light-dark(#b3261e, #ff8a80); --good: light-dark(#1b7f3b, #7ddc9a); --card: light-dark(#f6f7f9, #1d2025); }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; } th, td { text-align: left; padding: .35rem .6rem;
  border-bottom: 1px solid var(--line); vertical-align: top; } th { color: var(--soft); font-weight: 500; }
h1, li { overflow-wrap: anywhere; } @media (max-width: 48rem) { table { display: block; overflow-x: auto; } }
code, pre { font: 13px/1.45 ui-monospace, monospace; } pre { background: var(--card); padding: .6rem; overflow: auto;
  white-space: pre-wrap; overflow-wrap: anywhere; margin: 0; }
.Failed, .stall { color: var(--bad); } .Completed { color: var(--good); } .soft { color: var(--soft); }
form { display: inline-flex; flex-wrap: wrap; gap: .4rem; margin: .2rem .8rem .2rem 0; }
input, button { font: inherit; max-width: 100%; }
ol.timeline { list-style: none; border-left: 2px solid var(--line); padding-left: 1rem; }
ol.timeline li { margin: .4rem 0; } nav a { margin-right: .8rem; } .stall { border: 1px solid; padding: .6rem; }
"""


class Page:
    """The HTML documents of the page, and the effects of its forms."""

    def __init__(self, app: App, engine: Engine, client: Client) -> None:
        self._app = app
        self._engine = engine
        self._client = client

    def overview(self, status: str, prefix: str, after: str) -> str:
        """Returns the page of functions, stalls and instances. `status` and the id's `prefix` select the instances, and
        `after` is the last id of the previous page.
        """
        statuses = [one for one in Status if one.value == status]
        instances = self._client.find(statuses=statuses, prefix=prefix, after=after, limit=_PAGE_SIZE)
        counts = self._engine.store.count_by_status()
        links = [_filter_link("", prefix, f"all ({sum(counts.values())})")]
        links += [_filter_link(one.value, prefix, f"{one.value} ({counts[one]})") for one in Status if one in counts]
        more = ""
        if len(instances) == _PAGE_SIZE:
            query = f"status={quote(status)}&prefix={quote(prefix)}&after={quote(instances[-1].instance_id, safe='')}"
            more = f'<p><a href="/emulator?{escape(query)}">next {_PAGE_SIZE}</a></p>'
        rows = "".join(self._row(one) for one in instances)
        functions = "".join(_function(one) for one in self._app.functions)
        problems = "".join(f'<li class="Failed">{escape(one)}</li>' for one in self._app.problems)
        return _document(
            "Functions host",
            f"<h1>Functions host</h1>{self._stalls()}<h2>Orchestrations</h2><nav>{''.join(links)}</nav>"
            f'<form method="get" action="/emulator"><input name="prefix" value="{escape(prefix)}" '
            'placeholder="id begins with" aria-label="id begins with"><button>find</button></form>'
            "<table><thead><tr><th>instance<th>function<th>status<th>waits for<th>changed</tr></thead>"
            f"<tbody>{rows}</tbody></table>{more}<h2>Functions</h2>"
            "<table><thead><tr><th>name<th>trigger<th>runs on</tr></thead>"
            f"<tbody>{functions}</tbody></table><ul>{problems}</ul>",
        )

    def detail(self, instance_id: str) -> str:
        """Returns one instance with its history. Raises `InstanceNotFoundError`."""
        one = self._client.status(instance_id)
        history = self._client.history(one)
        path = f"/emulator/instances/{quote(instance_id, safe='')}"
        fields = (
            ("function", f"<code>{escape(one.name)}</code>{_version(one)}"),
            ("status", f'<span class="{one.status}">{one.status}</span>'),
            ("waits for", escape(self._waits(one)) or '<span class="soft">nothing</span>'),
            ("created", f"{one.created_at:%Y-%m-%d %H:%M:%S} UTC"),
            ("changed", f"{one.updated_at:%Y-%m-%d %H:%M:%S} UTC"),
            ("parent", _parent(one)),
            ("input", _json(one.input)),
            ("custom status", _json(one.custom_status)),
            ("output", _json(one.output)),
        )
        rows = "".join(f"<tr><th>{name}</th><td>{value}</td></tr>" for name, value in fields)
        controls = "" if one.status.is_terminal else _controls(path, one)
        return _document(
            instance_id,
            f'<p><a href="/emulator">all orchestrations</a></p><h1>{escape(instance_id)}</h1>'
            f"{self._stalls(instance_id)}<table>{rows}</table>{controls}<h2>History</h2>{_timeline(history)}",
        )

    def control(self, instance_id: str, operation: str, form: dict[str, str]) -> None:
        """Applies a form to an instance.

        Raises `ValueError` for an unknown operation or data that is not JSON, and the errors of the durable client.
        """
        reason = form.get("reason", "") or "by hand"
        match operation:
            case "terminate":
                self._client.terminate(instance_id, reason)
            case "suspend":
                self._client.suspend(instance_id, reason)
            case "resume":
                self._client.resume(instance_id, reason)
            case "raise":
                data = form.get("data", "").strip() or "null"
                json.loads(data)
                self._client.raise_event(instance_id, form.get("name", ""), data)
            case _:
                raise ValueError(f"unknown operation {operation!r}")

    def _waits(self, one: Instance) -> str:
        return "" if one.status.is_terminal else ", ".join(self._engine.reports.waiting_for(one.instance_id))

    def _row(self, one: Instance) -> str:
        link = f'<a href="/emulator/instances/{quote(one.instance_id, safe="")}">{escape(one.instance_id)}</a>'
        return (
            f'<tr><td>{link}<td><code>{escape(one.name)}</code><td class="{one.status}">{one.status}'
            f"<td>{escape(self._waits(one))}<td>{one.updated_at:%H:%M:%S}</tr>"
        )

    def _stalls(self, instance_id: str | None = None) -> str:
        stalls = [
            one for one in self._engine.reports.stalls if one.over_at is None and instance_id in (None, one.instance_id)
        ]
        return "".join(
            f'<p class="stall" role="alert"><strong>{escape(one.instance_id)}</strong> '
            f"{'never ends' if one.for_ever else 'is delayed'}: {escape(one.reason)}</p>"
            for one in stalls
        )


def home(*, has_page: bool) -> str:
    """Returns the page at `/`, with a link to `/emulator` if that page is served."""
    link = '<p><a href="/emulator">Functions and orchestrations</a></p>' if has_page else ""
    return _document("Functions host", f"<h1>Functions host</h1><p>The app is up and running.</p>{link}")


def _document(title: str, body: str) -> str:
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        '<meta name="viewport" content="width=device-width"><link rel="icon" href="data:,">'
        f"<style>{_STYLE}</style></head><body>{body}</body></html>"
    )


def _filter_link(status: str, prefix: str, text: str) -> str:
    query = f"status={quote(status)}&prefix={quote(prefix)}"
    return f'<a href="/emulator?{escape(query)}">{escape(text)}</a>'


def _function(one: Function) -> str:
    fields = one.trigger.fields
    names = ("route", "schedule", "topicName", "subscriptionName", "queueName", "path", "methods")
    details = ", ".join(f"{name} {_words(fields[name])}" for name in names if fields.get(name))
    return f"<tr><td><code>{escape(one.name)}</code><td>{escape(one.trigger.type)}<td>{escape(details)}</tr>"


def _words(value: Any) -> str:
    return " ".join(value) if isinstance(value, list) else str(value)


def _version(one: Instance) -> str:
    return f" version {escape(one.version)}" if one.version else ""


def _parent(one: Instance) -> str:
    if one.parent is None:
        return '<span class="soft">none</span>'
    name = one.parent.instance_id
    return f'<a href="/emulator/instances/{quote(name, safe="")}">{escape(name)}</a>'


def _json(text: str | None) -> str:
    if text is None:
        return '<span class="soft">none</span>'
    return f"<pre>{escape(json.dumps(json.loads(text), indent=2, ensure_ascii=False))}</pre>"


def _controls(path: str, one: Instance) -> str:
    pause = "resume" if one.status is Status.SUSPENDED else "suspend"
    return (
        "<h2>Control</h2>"
        f'<form method="post" action="{path}/raise"><input name="name" required placeholder="event name" '
        'aria-label="event name"><input name="data" placeholder="JSON" aria-label="JSON"><button>raise event</button>'
        f'</form><form method="post" action="{path}/{pause}"><button>{pause}</button></form>'
        f'<form method="post" action="{path}/terminate"><input name="reason" placeholder="reason" aria-label="reason">'
        "<button>terminate</button></form>"
    )


def _timeline(history: Sequence[Event]) -> str:
    events = [event for event in history if event.kind is not Kind.ORCHESTRATOR_COMPLETED]
    items = "".join(f"<li>{_line(line)}</li>" for line in show_history(events, with_output=True))
    return f'<ol class="timeline">{items}</ol>'


def _line(line: dict[str, Any]) -> str:
    rest = {name: value for name, value in line.items() if name not in ("EventType", "Timestamp")}
    detail = f"<pre>{escape(json.dumps(rest, ensure_ascii=False))}</pre>" if rest else ""
    return f'<span class="soft">{escape(str(line["Timestamp"])[11:23])}</span> {escape(line["EventType"])}{detail}'
