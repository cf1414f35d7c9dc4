"""Snapshots: the resources of a deployment with a parameter file, as the compiler evaluates them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infra.checks.compiler import SUBSCRIPTION, Compiler
from infra.checks.finding import Finding

_GROUP = re.compile(
    rf"/subscriptions/{SUBSCRIPTION}/resourceGroups/[\w-]+(?:/providers/)?|/subscriptions/{SUBSCRIPTION}"
)
#: values that Azure knows after it created the resource: `reference('TYPE/NAME', 'VERSION').property`
_REFERENCE = re.compile(r"reference\('(?:[^']*/)?([^'/]+)', '[\w-]+'(?:, 'full')?\)")
_LANE = re.compile(r"(?<=-p)\d+\b")


@dataclass(frozen=True)
class Resource:
    """One resource: its type, its name with those of its parents, and its evaluated definition."""

    type: str
    name: str
    content: Mapping[str, Any]

    def get(self, path: str) -> Any:
        """Returns the value at a path such as `properties.sku.name`, or None if the value is absent."""
        value: Any = self.content
        for part in path.split("."):
            value = value.get(part) if isinstance(value, dict) else None
        return value

    @property
    def scope(self) -> str:
        """Returns the id of the resource that an extension (such as a role assignment) belongs to. For any other
        resource, returns the id of its resource group.
        """
        quoted = re.match(r"\[extensionResourceId\('([^']+)'", str(self.content["id"]))
        return quoted[1] if quoted else str(self.content["id"]).rpartition("/providers/")[0]


@dataclass(frozen=True)
class Snapshot:
    """The deployment of one parameter file."""

    file: Path
    resources: tuple[Resource, ...]

    def of(self, *types: str) -> list[Resource]:
        """Returns the resources of these types."""
        return [each for each in self.resources if each.type in types]

    @property
    def on_flex(self) -> bool:
        """Returns `True` if the app's plan is Flex Consumption."""
        return any(each.get("sku.name") == "FC1" for each in self.of("Microsoft.Web/serverfarms"))

    def finding(self, rule: str, resource: Resource | None, text: str) -> Finding:
        """Returns a finding of a rule, in the parameter file."""
        subject = f"{resource.type.rpartition('/')[2]} {short(resource.name)}: " if resource is not None else ""
        return Finding(self.file, 0, rule, f"{subject}{text}")


def take(compiler: Compiler, file: Path) -> Snapshot:
    """Evaluates a valid parameter file."""
    content = compiler.snapshot(file)
    return Snapshot(file, tuple(Resource(each["type"], str(each["name"]), each) for each in content))


def short(text: str) -> str:
    """Returns the text without ids of subscription and resource group, with `*` for the number of a lane.

    A reference to a resource's property becomes `NAME.property`.
    """
    return _LANE.sub("*", _GROUP.sub("", _REFERENCE.sub(r"\1", text)))


def settings(given: Any) -> dict[str, str]:
    """Returns the settings of `Microsoft.Web/sites/config`.

    If the settings are an expression that a deployment evaluates, returns the parts of the expression.
    """
    if isinstance(given, dict):
        return {name: str(value) for name, value in given.items()}
    return dict(_pairs(str(given).strip("[]")))


def _pairs(expression: str) -> Iterator[tuple[str, str]]:
    """Yields names and values of `union(createObject('NAME', value, ...), if(condition, createObject(...), ...))`."""
    function, _, rest = expression.partition("(")
    arguments = _arguments(rest[:-1])
    if function == "createObject":
        for name, value in zip(arguments[::2], arguments[1::2], strict=True):
            yield name.strip("'"), value
    elif function in ("union", "if"):
        for each in arguments:
            yield from _pairs(each)


def _arguments(text: str) -> list[str]:
    """Splits at the commas outside of brackets and quotes."""
    parts, depth, quoted, begun = [], 0, False, 0
    for place, letter in enumerate(text):
        quoted ^= letter == "'"
        depth += 0 if quoted else (letter in "([") - (letter in ")]")
        if letter == "," and depth == 0 and not quoted:
            parts.append(text[begun:place].strip())
            begun = place + 1
    return [*parts, text[begun:].strip()] if text else []
