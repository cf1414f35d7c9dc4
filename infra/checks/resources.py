"""Resource types and API versions, roles by name, and which resources the template has."""

from __future__ import annotations

import re

from infra.checks.finding import Finding
from infra.checks.known import KNOWN
from infra.checks.template import Node, Template, literal, text, walk

_GUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)
_ROLES = {guid: name for name, guid in KNOWN["roles"].items()}


def check(template: Template) -> list[Finding]:
    return _types(template) + _roles(template)


def _types(template: Template) -> list[Finding]:
    found = []
    for resource in template.resources:
        versions = KNOWN["resources"].get(resource.type)
        if versions is None:
            found.append(Finding(template.path, resource.line, "resource-type", f"{resource.type} is not in the list"))
        elif resource.api_version not in versions:
            wanted = ", ".join(versions)
            found.append(
                Finding(
                    template.path,
                    resource.line,
                    "api-version",
                    f"{resource.type}@{resource.api_version}: the list has {wanted}",
                )
            )
    return found


def _roles(template: Template) -> list[Finding]:
    """A GUID is a role's, and the name it is given says which."""
    found = []
    for node in walk(template.root):
        guid = literal(node) if node.type == "string" else None
        if guid is None or not _GUID.fullmatch(guid):
            continue
        line, role = node.start_point.row + 1, _ROLES.get(guid.lower())
        if role is None:
            found.append(Finding(template.path, line, "role", f"{guid} is no role of the list"))
        elif (given := _given_name(node)) is None or _plain(given) != _plain(role):
            found.append(Finding(template.path, line, "role", f"{guid} is {role}, but is called {given}"))
    return found


def _given_name(node: Node) -> str | None:
    """The property or variable that holds the value."""
    around = node.parent
    while around is not None:
        if around.type in ("object_property", "variable_declaration", "parameter_declaration"):
            key = around.named_children[0]
            return literal(key) if key.type == "string" else text(key)
        around = around.parent
    return None


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())
