"""App settings: the template sets each one that the app or a binding needs in Azure, and no other."""

from __future__ import annotations

import re
from collections.abc import Iterable

from infra.checks import host_json
from infra.checks.finding import Finding
from infra.checks.template import Node, Template, key_name, text, walk

#: names that only app settings have
_SETTING = re.compile(
    r"LUCIUS_|AzureWebJobs|AzureFunctionsJobHost__|APPLICATIONINSIGHTS_|FUNCTIONS_|WEBSITE_|DURABLE_TASK_|"
    r"PYTHON_|SCM_|ENABLE_ORYX|OTEL_|AZURE_CLIENT_ID$|TASKHUB_NAME$"
)
_HOST_JSON = "AzureFunctionsJobHost__"
#: the scale controller reads these in the packaged host.json only: what a setting says, it does not know
_DURABLE = "AzureFunctionsJobHost__extensions__durableTask__"
#: Flex Consumption has functionAppConfig for these and refuses them: they belong into the variable of Premium settings
_PREMIUM_ONLY = frozenset({"FUNCTIONS_WORKER_RUNTIME", "FUNCTIONS_EXTENSION_VERSION", "WEBSITE_RUN_FROM_PACKAGE"})
_PREMIUM = "premiumSettings"


def check(templates: Iterable[Template], *, known: frozenset[str], needed: frozenset[str]) -> list[Finding]:
    """Settings that nobody reads (not in `known`), that are missing (`needed`) or that the plan refuses.

    Each part of a connection by identity is a name of its own (`NAME__fullyQualifiedNamespace`).
    """
    where = {name: place for template in templates for name, place in _set(template)}
    found = []
    for name, (template, line, group) in where.items():
        if name in _PREMIUM_ONLY and group != _PREMIUM:
            found.append(Finding(template.path, line, "app-setting", f"{name} is refused on Flex Consumption"))
        elif name.lower().startswith(_DURABLE.lower()):
            text = f"{name}: the scale controller reads durableTask in host.json only"
            found.append(Finding(template.path, line, "app-setting", text))
        elif name.startswith(_HOST_JSON):
            if not host_json.documented(tuple(name.removeprefix(_HOST_JSON).split("__"))):
                found.append(
                    Finding(template.path, line, "app-setting", f"{name} names no documented key of host.json")
                )
        elif name not in known:
            found.append(Finding(template.path, line, "app-setting", f"{name} is not read by the app or the platform"))
    first = next(iter(templates), None)
    missing = sorted(needed - set(where))
    if first is not None:
        found += [Finding(first.path, 0, "app-setting", f"{name} is needed and not set") for name in missing]
    return found


def _set(template: Template) -> Iterable[tuple[str, tuple[Template, int, str | None]]]:
    """Names with their place and the declaration around them; a type that lists settings does not set them."""
    for node in walk(template.root):
        if node.type == "object_property" and node.named_children:
            key = node.named_children[0]
            name = key_name(key) or ""
            if _SETTING.match(name) and (group := _declaration(node)) is not None:
                yield name, (template, key.start_point.row + 1, group)


def _declaration(node: Node) -> str | None:
    """The name of the variable, resource or module around a property; None in a type."""
    while node.parent is not None and node.parent.type != "infrastructure":
        node = node.parent
    return None if node.type == "type_declaration" else text(node.named_children[0])
