"""Route templates as ASP.NET Core reads them: `v1/jobs/{jobId:int}`, `{jobId}:cancel`, `{id?}`, `{*rest}`.

The first function by name whose template and methods match gets the request, since Azure does not prefer the more
specific template.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from functions_emulator.host.errors import BindingError
from functions_emulator.host.functions import Function

#: placeholders for `{{` and `}}`, the braces of a regular expression, while a template is parsed
_OPEN, _CLOSE = "\x00", "\x01"
#: .NET's rules: names ignore case (`OrdinalIgnoreCase`), numbers have ASCII digits, and a value can have any character
_FLAGS = re.IGNORECASE | re.ASCII | re.DOTALL
_PART = re.compile(
    r"\{(?P<catch>\*{0,2})(?P<name>\w+)"
    r"(?P<rest>(?::\w+(?:\((?:[^()]|\([^()]*\))*\))?)*)"
    r"(?P<default>=[^{}?]*)?(?P<optional>\?)?\}"
)

_CONSTRAINTS = {
    "int": r"[-+]?\d+",
    "long": r"[-+]?\d+",
    "bool": r"(?i:true|false)",
    "guid": r"(?i:\{?[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}\}?)",
    "alpha": r"[a-zA-Z]*",
    "decimal": r"[-+]?\d+(?:\.\d+)?",
    "double": r"[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?",
    "float": r"[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?",
    "datetime": r"[^/]+",
    "required": r"[^/]+",
}
_INTEGER = re.compile(r"[-+]?[0-9]+")
_CHECKS = re.compile(r":(?P<name>\w+)(?:\((?P<argument>(?:[^()]|\([^()]*\))*)\))?")


@dataclass(frozen=True, slots=True)
class Template:
    """A compiled route template."""

    text: str
    pattern: re.Pattern[str]
    #: values of parameters that the path can omit
    defaults: Mapping[str, str]
    #: parameter, constraint (`min`, `length`, ...) and its argument
    bounds: tuple[tuple[str, str, str], ...]

    def match(self, path: str) -> dict[str, str] | None:
        """Returns the parameters of a path (decoded, without a leading slash), or `None` if the path does not match."""
        match = self.pattern.fullmatch(path)
        if match is None:
            return None
        values = {name: value for name, value in match.groupdict().items() if value}
        if not all(_in_bounds(values.get(name), check, argument) for name, check, argument in self.bounds):
            return None
        return {**self.defaults, **values}


def parse_template(text: str) -> Template:
    """Compiles a template. Raises `BindingError` if the template is invalid."""
    defaults: dict[str, str] = {}
    bounds: list[tuple[str, str, str]] = []
    pattern = ""
    bare = text.strip("/").replace("{{", _OPEN).replace("}}", _CLOSE)
    for index, segment in enumerate(bare.split("/") if bare else []):
        piece, omissible, position = "", False, 0
        for parameter in _PART.finditer(segment):
            piece += re.escape(segment[position : parameter.start()])
            position = parameter.end()
            alone = parameter.group() == segment
            piece += f"(?P<{parameter['name']}>{_value(parameter, bounds, text)})"
            if parameter["default"]:
                defaults[parameter["name"]] = parameter["default"][1:]
            omissible = alone and bool(parameter["default"] or parameter["optional"] or parameter["catch"])
        literal = segment[position:]
        if "{" in literal or "}" in literal:
            raise BindingError(f"the route {text!r} is not valid at {literal!r}")
        piece += re.escape(literal)
        slash = "/" if index else ""
        pattern += f"(?:{slash}{piece})?" if omissible else f"{slash}{piece}"
    try:
        return Template(text, re.compile(pattern + "/?", _FLAGS), defaults, tuple(bounds))
    except re.error as error:
        raise BindingError(f"the route {text!r} is not valid: {error}") from None


def _value(parameter: re.Match[str], bounds: list[tuple[str, str, str]], text: str) -> str:
    value = ".*" if parameter["catch"] else "[^/]+?"
    for check in _CHECKS.finditer(parameter["rest"]):
        name, argument = check["name"], check["argument"] or ""
        if name in _CONSTRAINTS:
            value = _CONSTRAINTS[name]
        elif name == "regex":
            value = argument.replace(_OPEN, "{").replace(_CLOSE, "}").removeprefix("^").removesuffix("$")
        elif name in ("min", "max", "range", "length", "minlength", "maxlength"):
            bounds.append((parameter["name"], name, argument))
        else:
            raise BindingError(f"the route {text!r} has an unknown constraint {name!r}")
    return value


def _in_bounds(value: str | None, check: str, argument: str) -> bool:
    if value is None:
        return True
    limits = [int(part) for part in argument.split(",")]
    size = len(value) if "length" in check else int(value) if _INTEGER.fullmatch(value) else None
    if size is None:
        return False
    if check in ("min", "minlength"):
        return size >= limits[0]
    if check in ("max", "maxlength"):
        return size <= limits[0]
    return limits[0] <= size <= limits[-1]


@dataclass(frozen=True, slots=True)
class Route:
    """A function with its template. Without `methods`, the route matches any method."""

    function: Function
    template: Template
    methods: frozenset[str]
    auth_level: str


class RouteTable:
    """The routes of an app, in the order of the function names."""

    def __init__(self, functions: Iterable[Function], prefix: str) -> None:
        self.routes = tuple(_route(one, prefix) for one in sorted(functions, key=lambda one: one.name))

    def find(self, method: str, path: str) -> tuple[Route, dict[str, str]] | None:
        """Returns the route and the parameters of a path, or `None`. A wrong method also returns `None`
        (docs/decisions/0012).

        The path is decoded, without a leading slash.
        """
        for route in self.routes:
            if route.methods and method not in route.methods:
                continue
            values = route.template.match(path)
            if values is not None:
                return route, values
        return None


def _route(function: Function, prefix: str) -> Route:
    fields = function.trigger.fields
    text = str(fields.get("route") or function.name)
    template = parse_template("/".join(part for part in (prefix.strip("/"), text.lstrip("/")) if part))
    methods = frozenset(str(one).upper() for one in fields.get("methods") or ())
    return Route(function, template, methods, str(fields.get("authLevel") or "function").lower())
