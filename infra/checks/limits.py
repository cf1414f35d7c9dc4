"""What parameters promise: a default names parameters only (BCP072), values keep to the limits (BCP328 to BCP335).

The compiler knows this too, and refuses or warns. Limits are followed through literals, interpolation, `max`, `min`,
conditions, variables and the limits of parameters; of any other expression nothing is said.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from infra.checks.finding import Finding
from infra.checks.known import KNOWN
from infra.checks.symbols import references
from infra.checks.template import Declared, Node, Template, literal, nested, text

_BUILT_IN = frozenset(KNOWN["functions"])
#: `uniqueString` has thirteen characters, `guid` 36
_FIXED = {"uniqueString": 13, "guid": 36, "newGuid": 36}
#: a module's own `name` is that of a deployment
_DEPLOYMENT = {"maxLength": 64}


@dataclass(frozen=True)
class Bounds:
    """The least and the most of a number, or of a string's length; None: not known."""

    unit: str
    least: int | None
    most: int | None


def check(template: Template, templates: Mapping[Path, Template]) -> list[Finding]:
    """Defaults of the template's parameters, and what it gives to its modules; `templates` by resolved path."""
    found = [each for parameter in template.of_kind("parameter").values() for each in _default(template, parameter)]
    for module in template.modules:
        target = templates.get((template.path.parent / module.path).resolve())
        takes = target.of_kind("parameter") if target is not None else {}
        deployment = nested(module.node).get("name")
        if deployment is not None:
            found += _compare(template, deployment, "name", _DEPLOYMENT)
        for name, node in module.parameters.items():
            if name in takes:
                found += _compare(template, node, name, takes[name].limits)
    return found


def check_parameters(file: Template, target: Template) -> list[Finding]:
    """The values of a `.bicepparam` file against the limits of its template."""
    takes = target.of_kind("parameter")
    return [
        each
        for name, given in file.of_kind("variable").items()
        if name in takes and given.value is not None
        for each in _compare(file, given.value, name, takes[name].limits)
    ]


def _default(template: Template, parameter: Declared) -> list[Finding]:
    if parameter.value is None:
        return []
    parameters = template.of_kind("parameter")
    found = []
    for node in references(parameter.value):
        name, line = text(node), node.start_point.row + 1
        if name.startswith("load"):
            reason = f"{parameter.name}: {name} becomes a variable, which Resource Manager refuses in a default"
            found.append(Finding(template.path, line, "default", reason))
        elif name not in parameters and name not in _BUILT_IN:
            reason = f"{parameter.name}: {name} is no parameter (BCP072)"
            found.append(Finding(template.path, line, "default", reason))
    return found + _compare(template, parameter.value, parameter.name, parameter.limits)


def _compare(template: Template, node: Node, name: str, limits: Mapping[str, int]) -> list[Finding]:
    bounds = _bounds(template, node)
    if bounds is None:
        return []
    least, most = limits.get(f"min{bounds.unit}"), limits.get(f"max{bounds.unit}")
    broken = []
    if least is not None and bounds.least is not None and bounds.least < least:
        broken.append(f"{name} can be {bounds.least}, below its least {bounds.unit.lower()} {least}")
    if most is not None and bounds.most is not None and bounds.most > most:
        broken.append(f"{name} can be {bounds.most}, above its most {bounds.unit.lower()} {most}")
    return [Finding(template.path, node.start_point.row + 1, "limit", each) for each in broken]


def _bounds(template: Template, node: Node) -> Bounds | None:
    """None for what is neither a number nor a string, or not known to be."""
    if node.type == "number":
        return Bounds("Value", int(text(node)), int(text(node)))
    if node.type == "unary_expression" and text(node).lstrip("-").isdigit():
        return Bounds("Value", int(text(node)), int(text(node)))
    if node.type == "string":
        return _string(template, node)
    if node.type == "parenthesized_expression":
        return _bounds(template, node.named_children[0])
    if node.type == "ternary_expression":
        _, true, false = (_bounds(template, child) for child in node.named_children)
        return _either(true, false)
    if node.type == "call_expression":
        return _call(template, node)
    if node.type == "identifier":
        return _named(template, text(node))
    return None


def _string(template: Template, node: Node) -> Bounds:
    fixed = literal(node)
    if fixed is not None:
        return Bounds("Length", len(fixed), len(fixed))
    least, most = 0, 0
    known = True
    for part in node.named_children:
        if part.type != "interpolation":
            least, most = least + len(text(part)), most + len(text(part))
            continue
        inner = _bounds(template, part.named_children[0])
        least += (inner.least or 0) if inner is not None and inner.unit == "Length" else 0
        if inner is None or inner.unit != "Length" or inner.most is None:
            known = False
        else:
            most += inner.most
    return Bounds("Length", least, most if known else None)


def _call(template: Template, node: Node) -> Bounds | None:
    name = text(node.named_children[0])
    if name in _FIXED:
        return Bounds("Length", _FIXED[name], _FIXED[name])
    if name not in ("max", "min"):
        return None
    given = [_bounds(template, each) for each in node.named_children[1].named_children]
    ends = [each for each in given if each is not None and each.unit == "Value"]
    if len(ends) != len(given) or not ends:
        return None
    lows, highs = [each.least for each in ends], [each.most for each in ends]
    known_lows = [each for each in lows if each is not None]
    known_highs = [each for each in highs if each is not None]
    if name == "max":
        return Bounds("Value", max(known_lows, default=None), max(known_highs) if known_highs == highs else None)
    return Bounds("Value", min(known_lows) if known_lows == lows else None, min(known_highs, default=None))


def _named(template: Template, name: str) -> Bounds | None:
    parameter = template.of_kind("parameter").get(name)
    if parameter is not None:
        for unit in ("Value", "Length"):
            if f"min{unit}" in parameter.limits or f"max{unit}" in parameter.limits:
                # of an array the length is not a string's, but it is compared with an array's only
                return Bounds(unit, parameter.limits.get(f"min{unit}"), parameter.limits.get(f"max{unit}"))
        return None
    variable = template.of_kind("variable").get(name)
    return _bounds(template, variable.value) if variable is not None and variable.value is not None else None


def _either(one: Bounds | None, other: Bounds | None) -> Bounds | None:
    if one is None or other is None or one.unit != other.unit:
        return None
    least = None if one.least is None or other.least is None else min(one.least, other.least)
    most = None if one.most is None or other.most is None else max(one.most, other.most)
    return Bounds(one.unit, least, most)
