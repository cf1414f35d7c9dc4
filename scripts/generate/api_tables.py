"""Makes the tables of `docs/reference/api.md` from the routes and the OpenAPI document."""

from __future__ import annotations

import json
import re

from scripts.generate.quickstart import commands
from scripts.generate.tables import markdown_table
from shared.apidocs import event_schemas
from shared.apidocs.problems_page import returned_codes
from shared.apidocs.route import Route
from shared.core.events.event_types import PublicType
from triggers.registered import ROUTES


def begin() -> str:
    """Returns the first steps, each with a command."""
    lines: list[str] = []
    for number, (words, command) in enumerate(commands("http://127.0.0.1:7071"), start=1):
        lines += [f"{number}. {words}", "", *(f"       {line}" for line in command.split("\n")), ""]
    return "\n".join(lines).rstrip()


#: resources, each with the first parts of its paths; routes without a resource are documents
_RESOURCES = {
    "Jobs": ("orchestrate", "commands", "jobs", "deadletters", "receipts"),
    "Bulk operations": ("bulk",),
    "Events": ("events", "graphql"),
    "Dashboard": ("dashboard", "routing"),
    "Webhooks": ("webhooks",),
    "Incidents": ("incidents",),
    "Quotas and usage": ("quotas", "limits", "usage", "sources"),
    "Protocols": ("protocols",),
    "Operation": ("rejected", "admin", "health"),
    "Replies of services": ("callbacks",),
    "Documents": (),
}


def routes() -> str:
    """Returns a table for each resource."""
    found: dict[str, list[Route]] = {resource: [] for resource in _RESOURCES}
    for route in ROUTES:
        part = re.split("[/:]", route.path)[1]
        found[next((name for name, parts in _RESOURCES.items() if part in parts), "Documents")].append(route)
    return "\n\n".join(f"### {resource}\n\n{_route_table(each)}" for resource, each in found.items())


def _route_table(found: list[Route]) -> str:
    rows = []
    for route in found:
        scope = f"`{route.scope}`" if route.scope else ("token of the directive" if route.callback else "")
        summary = f"Older name of `{route.successor}`" if route.deprecated else route.summary
        rows.append((route.method, f"`/{route.path}`", scope, summary))
    return markdown_table(("method", "path", "scope", "operation"), rows)


def public_events() -> str:
    """Returns every type of public events, its condition, and the fields of its payload."""
    rows = []
    for type_, schema in event_schemas.documents().items():
        members = schema["properties"]["data"]["properties"]["payload"]["properties"]
        rows.append((f"`{type_}`", schema["description"], ", ".join(f"`{name}`" for name in members)))
    return markdown_table(("type", "sent when", "`data.payload`"), rows)


def public_event() -> str:
    """Returns the JSON of one public event."""
    text = json.dumps(event_schemas.example(PublicType.COMPLETED), indent=2)
    return f"```json\n{text}\n```"


def problems() -> str:
    """Returns every error code with its HTTP statuses."""
    rows = ((f"`{code}`", ", ".join(map(str, statuses)), meaning) for code, statuses, meaning in returned_codes(ROUTES))
    return markdown_table(("code", "status", "meaning"), rows)


#: parts that `scripts.generate` writes
PARTS = {
    "api-begin": begin,
    "api-routes": routes,
    "public-event": public_event,
    "public-events": public_events,
}
