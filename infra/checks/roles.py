"""Roles: ids by the names that Azure gives them, and who must have which role where."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from infra.checks.finding import Finding
from infra.checks.template import (
    Module,
    Node,
    Resource,
    Template,
    ancestors,
    key_name,
    literal,
    nested,
    properties,
    text,
    walk,
)

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


class Right(NamedTuple):
    """`where`: a template, its module or resource, and the container. `when`: the condition; empty is always."""

    who: str
    role: str
    where: str
    when: str = ""


#: as the caller of a module says
_NAMED = ("assignment.principalId", "assignment.role")
#: every right that the templates give, and no other
RIGHTS = frozenset(
    {
        Right("app", "Storage Blob Data Owner", "storage runtimeStorage"),
        Right("app", "Storage Table Data Contributor", "storage runtimeStorage"),
        Right("app", "Storage Queue Data Contributor", "storage runtimeStorage", "queues"),
        Right("app", "Storage Table Data Contributor", "storage ledgerStorage"),
        Right("app", "Storage Blob Data Contributor", "storage ledgerStorage"),
        Right("app", "Azure Service Bus Data Receiver", "main serviceBus", "!targetBasedScaling"),
        Right("app", "Azure Service Bus Data Sender", "main serviceBus", "!targetBasedScaling"),
        Right("app", "Azure Service Bus Data Owner", "main serviceBus", "targetBasedScaling"),
        Right("app", "Durable Task Data Contributor", "main durableTask"),
        Right("app", "App Configuration Data Reader", "main configurationStore"),
        Right("app", "Key Vault Secrets User", "main vault"),
        Right("app", "Monitoring Metrics Publisher", "main monitoring"),
        Right("operator", "App Configuration Data Owner", "main configurationStore"),
        Right("tester", "Storage Blob Data Contributor", "storage documentsStorage smokeContainer"),
        Right(
            "tester", "Storage Blob Data Contributor", "storage documentsStorage documentsContainer", "testerUploads"
        ),
        Right("service", "Azure Service Bus Data Receiver", "platform-service-roles subscriptions"),
        Right("service", "Azure Service Bus Data Sender", "platform-service-roles replyTopics"),
        Right("service", "Storage Blob Data Reader", "platform-service-roles inputContainers"),
        Right("service", "Storage Blob Data Contributor", "platform-service-roles outputContainers"),
        # whose roles are those of a platform service
        Right("service", "platform-service", "main services"),
        Right("tester", "platform-service", "main operatorServices", "operatorRunsServices"),
        # modules give what their caller names, on what they make
        Right(*_NAMED, "app-configuration store"),
        Right(*_NAMED, "durable-task taskHub"),
        Right(*_NAMED, "key-vault vault"),
        Right(*_NAMED, "monitoring component"),
        Right(*_NAMED, "service-bus namespace"),
        Right(*_NAMED, "storage-account account"),
        Right(*_NAMED, "storage-account blobContainers"),
    }
)
#: who an object id is, by where the templates get it
_WHO = {
    "identity.outputs.principalId": "app",
    "operator.principalId": "operator",
    "tester.principalId": "tester",
    "service.?principalId ?? ''": "service",
    # in platform-service.bicep: of an identity that it made, or was given
    "holder": "service",
}
_ASSIGNMENT = "Microsoft.Authorization/roleAssignments"
_GIVEN = ("roleAssignments", "containerRoles")
_SERVICE = "platform-service"
_GUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)
_NAMES = {guid: name for name, guid in BUILT_IN.items()}


def check(templates: Mapping[Path, Template]) -> list[Finding]:
    """Rights of the templates (by resolved path) that are not in the table, and of the table that nobody gives."""
    given = dict(_given(templates))
    found = [
        Finding(path, line, "right", f"{_sentence(right)}: infra/checks/roles.py has no such right")
        for right, (path, line) in given.items()
        if right not in RIGHTS
    ]
    files = {path.stem: path for path in templates}
    for right in RIGHTS - given.keys():
        path = files.get(right.where.split()[0], Path(right.where.split()[0]))
        found.append(Finding(path, 0, "right", f"{_sentence(right)}: is not given"))
    return found


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


def _sentence(right: Right) -> str:
    return f"{right.who} as {right.role} at {right.where}" + (f" where {right.when}" if right.when else "")


def _given(templates: Mapping[Path, Template]) -> Iterator[tuple[Right, tuple[Path, int]]]:
    for path, template in templates.items():
        for module in template.modules:
            for parameter in _GIVEN:
                if parameter in module.parameters:
                    yield from _of_list(templates, template, module, module.parameters[parameter])
            if Path(module.path).stem == _SERVICE:
                who = _who(templates, template, text(module.parameters["principalId"]))
                when = re.match(r"module \w+ '[^']*' = if \((.*)\) {", text(module.node))
                right = Right(who, _SERVICE, f"{path.stem} {module.name}", when[1] if when else "")
                yield right, (path, module.line)
        for resource in template.resources:
            if resource.type == _ASSIGNMENT and not resource.existing:
                yield _of_resource(templates, template, resource), (path, resource.line)


def _of_list(
    templates: Mapping[Path, Template], template: Template, module: Module, given: Node
) -> Iterator[tuple[Right, tuple[Path, int]]]:
    """The objects in what a module is given, under the conditions around each."""
    for node in walk(given):
        each = properties(node) if node.type == "object" else {}
        if "principalId" not in each or "role" not in each:
            continue
        where = [template.path.stem, module.name, *([text(each["container"])] if "container" in each else [])]
        who, when = _who(templates, template, text(each["principalId"])), _condition(node, given)
        yield Right(who, _role(text(each["role"])), " ".join(where), when), (template.path, node.start_point.row + 1)


def _of_resource(templates: Mapping[Path, Template], template: Template, resource: Resource) -> Right:
    values = nested(resource.node, "properties")
    scope, principal = nested(resource.node).get("scope"), values.get("principalId")
    # the id is made of the role's name, the last that is named
    role = re.findall(r"[\w.]+", text(values["roleDefinitionId"]))[-1] if "roleDefinitionId" in values else ""
    where = text(scope).partition("[")[0] if scope is not None else ""
    who = _who(templates, template, text(principal)) if principal is not None else ""
    return Right(who, _role(role), f"{template.path.stem} {where}")


def _who(templates: Mapping[Path, Template], template: Template, expression: str) -> str:
    """Whose object id an expression is: one that names a parameter is what every caller gives for it."""
    name, dot, rest = expression.partition(".")
    if name not in template.of_kind("parameter"):
        return _WHO.get(expression, expression)
    givers = {
        _who(templates, caller, f"{text(module.parameters[name])}{dot}{rest}")
        for caller in templates.values()
        for module in caller.modules
        if name in module.parameters and (caller.path.parent / module.path).resolve() == template.path.resolve()
    }
    return " or ".join(sorted(givers)) or expression


def _condition(node: Node, outermost: Node) -> str:
    """The conditions of `? :` that a node stands under."""
    conditions = []
    while node != outermost and node.parent is not None:
        around = node.parent
        if around.type == "ternary_expression":
            condition, true, _ = around.named_children
            conditions.append(text(condition) if node == true else f"!{text(condition)}")
        node = around
    return " && ".join(conditions)


def _role(name: str) -> str:
    """The role that a variable of roles.bicep names; anything else as it is."""
    return next((role for role in BUILT_IN if _letters(role) == _letters(name)), name)


def _name_of(node: Node) -> str | None:
    """The name of the property, variable or parameter that holds the value."""
    holders = ("object_property", "variable_declaration", "parameter_declaration")
    holder = next((around for around in ancestors(node) if around.type in holders), None)
    return None if holder is None else key_name(holder.named_children[0])


def _letters(name: str) -> str:
    return re.sub(r"^azure|[^a-z0-9]", "", name.lower())
