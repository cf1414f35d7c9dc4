"""Roles: ids by the names that Azure gives them."""

from __future__ import annotations

import re

from infra.checks.finding import Finding
from infra.checks.template import Node, Template, literal, text, walk

#: those that LUCIUS assigns; https://learn.microsoft.com/azure/role-based-access-control/built-in-roles
BUILT_IN = {
    "App Configuration Data Owner": "5ae67dd6-50cb-40e7-96ff-dc2bfa4b606b",
    "App Configuration Data Reader": "516239f1-63e1-4d78-a4de-a74fb236a071",
    "Azure Service Bus Data Owner": "090c5cfd-751d-490a-894a-3ce6f1109419",
    "Azure Service Bus Data Receiver": "4f6d3b9b-027b-4f4c-9142-0e5a2a2247e0",
    "Azure Service Bus Data Sender": "69a216fc-b8fb-44d8-bc22-1f3c2cd27a39",
    "Durable Task Data Contributor": "0ad04412-c4d5-4796-b79c-f76d14c8d402",
    "Key Vault Secrets User": "4633458b-17de-408a-b874-0445c86b69e6",
    "Monitoring Metrics Publisher": "3913510d-42f4-4e42-8a64-420c390055eb",
    "Storage Blob Data Contributor": "ba92f5b4-2d11-453d-a403-e96b0029c9fe",
    "Storage Blob Data Owner": "b7e6dc6d-f1e8-4753-8033-0f276bb0955b",
    "Storage Blob Data Reader": "2a2b9908-6ea1-4ae2-8e65-a410df84e7d1",
    "Storage Queue Data Contributor": "974c5e8b-45b9-4653-ba55-5f855dd0fb88",
    "Storage Table Data Contributor": "0a9a7e1f-b9d0-4cc4-a60d-0319b160aaa3",
}
_GUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)
_NAMES = {guid: name for name, guid in BUILT_IN.items()}


def check_ids(template: Template) -> list[Finding]:
    """A GUID is the id of a built-in role, under that role's name."""
    found = []
    for node in walk(template.root):
        guid = literal(node) if node.type == "string" else None
        if guid is None or not _GUID.fullmatch(guid):
            continue
        line, role = node.start_point.row + 1, _NAMES.get(guid.lower())
        if role is None:
            found.append(Finding(template.path, line, "role", f"{guid} is no role of infra/checks/roles.py"))
        elif (name := _name_of(node)) is None or _letters(name) != _letters(role):
            found.append(Finding(template.path, line, "role", f"{guid} is {role}, but is called {name}"))
    return found


def _name_of(node: Node) -> str | None:
    """The name of the property, variable or parameter that holds the value."""
    around = node.parent
    while around is not None:
        if around.type in ("object_property", "variable_declaration", "parameter_declaration"):
            key = around.named_children[0]
            return literal(key) if key.type == "string" else text(key)
        around = around.parent
    return None


def _letters(name: str) -> str:
    return re.sub(r"^azure|[^a-z0-9]", "", name.lower())
