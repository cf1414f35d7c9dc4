"""Declarations of a Bicep file, read by tree-sitter's grammar."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import tree_sitter
import tree_sitter_bicep

_LANGUAGE = tree_sitter.Language(tree_sitter_bicep.language())

Node = tree_sitter.Node


@dataclass(frozen=True)
class Declared:
    """A parameter, variable, type, function, import, resource, module or output."""

    kind: str
    name: str
    node: Node
    description: str | None = None
    #: parameters: no caller needs to name it
    optional: bool = False
    #: `@export()`ed, or a parameter that a caller may name
    public: bool = False
    #: what `@minLength`, `@maxLength`, `@minValue` and `@maxValue` promise
    limits: Mapping[str, int] = field(default_factory=dict)
    #: by name
    decorators: Mapping[str, Node] = field(default_factory=dict)

    @property
    def value(self) -> Node | None:
        """What stands after `=`: a parameter's default, a variable's value."""
        marks = [index for index, child in enumerate(self.node.children) if text(child) == "="]
        return self.node.children[marks[0] + 1] if marks else None

    @property
    def line(self) -> int:
        return self.node.start_point.row + 1


@dataclass(frozen=True)
class Resource:
    """`type` without the version; a child declared inside its parent carries the parent's type and version too."""

    name: str
    type: str
    api_version: str | None
    existing: bool
    node: Node

    @property
    def line(self) -> int:
        return self.node.start_point.row + 1


@dataclass(frozen=True)
class Module:
    name: str
    path: str
    parameters: dict[str, Node]
    node: Node

    @property
    def line(self) -> int:
        return self.node.start_point.row + 1


@dataclass
class Template:
    """A parsed file. `broken` are the lines that the grammar does not take."""

    path: Path
    root: Node
    broken: list[int]
    declared: list[Declared] = field(default_factory=list)
    resources: list[Resource] = field(default_factory=list)
    modules: list[Module] = field(default_factory=list)
    #: the files that imported names are of
    imports: dict[str, str] = field(default_factory=dict)
    #: codes that `#disable-next-line` silences, by the line that follows
    disabled: dict[int, frozenset[str]] = field(default_factory=dict)

    def of_kind(self, kind: str) -> dict[str, Declared]:
        return {each.name: each for each in self.declared if each.kind == kind}

    def other(self, path: str, templates: Mapping[Path, Template]) -> Template | None:
        """The template that `path` leads to from this one; `templates` by resolved path."""
        return templates.get((self.path.parent / path).resolve())


def parse(path: Path) -> Template:
    """Reads a `.bicep` or `.bicepparam` file. Raises OSError."""
    source = path.read_bytes()
    if path.suffix == ".bicepparam":
        # the grammar knows templates only, in which a variable has a value and no type
        source = re.sub(rb"(?m)^param ", b"var   ", source)
    # nor does it know a variable's type
    source = re.sub(rb"(?m)^(var \w+)( [\w\[\]?]+)(?= = )", lambda each: each[1] + b" " * len(each[2]), source)
    root = tree_sitter.Parser(_LANGUAGE).parse(source).root_node
    broken = sorted({node.start_point.row + 1 for node in walk(root) if node.is_error or node.is_missing})
    template = Template(path, root, broken, disabled=_disabled(root))
    decorators: list[Node] = []
    for node in root.named_children:
        if node.type == "decorators":
            decorators = node.named_children
            continue
        if node.type == "comment":
            continue
        _declare(template, node, decorators)
        decorators = []
    return template


def walk(node: Node) -> Iterator[Node]:
    """The node and all below it, as they stand in the file."""
    left = [node]
    while left:
        here = left.pop()
        yield here
        left += reversed(here.children)


def ancestors(node: Node) -> Iterator[Node]:
    """What stands around the node, the nearest first."""
    around = node.parent
    while around is not None:
        yield around
        around = around.parent


def text(node: Node) -> str:
    return (node.text or b"").decode()


def literal(node: Node | None) -> str | None:
    """A string without interpolation; None for anything else."""
    if node is None or node.type != "string" or any(child.type == "interpolation" for child in node.named_children):
        return None
    return "".join(text(child) for child in node.named_children)


def key_name(key: Node) -> str | None:
    """What a property is called, by its key; None: it is computed."""
    return literal(key) if key.type == "string" else text(key)


def local_names(head: Node) -> list[str]:
    """The variables that the head of a loop or lambda names: `x` or `(x, index)`."""
    return [text(each) for each in ([head] if head.type == "identifier" else head.named_children)]


def properties(node: Node) -> dict[str, Node]:
    """The properties of an object by name, with their values."""
    found = {}
    for each in node.named_children:
        if each.type == "object_property" and len(each.named_children) >= 2:
            name = key_name(each.named_children[0])
            if name is not None:
                found[name] = each.named_children[-1]
    return found


def nested(declaration: Node, *names: str) -> dict[str, Node]:
    """The properties of the object that `names` lead to in a resource or module; none where there is no such object."""
    inside = body(declaration)
    for name in names:
        inside = None if inside is None else properties(inside).get(name)
    return {} if inside is None else properties(inside)


def body(node: Node) -> Node | None:
    """The object of a resource or module, out of its condition or loop."""
    for child in reversed(node.named_children):
        if child.type == "object":
            return child
        if child.type in ("if_statement", "for_statement"):
            return body(child)
    return None


_KINDS = {
    "parameter_declaration": "parameter",
    "variable_declaration": "variable",
    "type_declaration": "type",
    "user_defined_function": "function",
    "resource_declaration": "resource",
    "module_declaration": "module",
    "output_declaration": "output",
}


def _declare(template: Template, node: Node, decorators: list[Node]) -> None:
    if node.type == "import_functionality":
        names = [each for each in walk(node) if each.type == "identifier"]
        template.declared += [Declared("import", text(each), each) for each in names]
        path = literal(next((each for each in node.named_children if each.type == "string"), None))
        template.imports |= {text(each): path for each in names if path is not None}
        return
    kind = _KINDS.get(node.type)
    if kind is None:
        return
    name = next(text(child) for child in node.named_children if child.type == "identifier")
    marks = {decorator(each): each for each in decorators}
    described = marks.get("description")
    strings = [literal(each) for each in walk(described) if each.type == "string"] if described else []
    template.declared.append(
        Declared(
            kind,
            name,
            node,
            description=strings[0] if strings else None,
            optional=kind == "parameter" and _has_default(node),
            public=kind == "parameter" or "export" in marks,
            limits={name: value for name, mark in marks.items() if (value := number(mark)) is not None},
            decorators=marks,
        )
    )
    if kind == "resource":
        _resource(template, node, parent="")
    if kind == "module":
        _module(template, node, name)


def decorator(node: Node) -> str:
    """The name of a decorator, without its namespace."""
    call = node.named_children[0]
    name = call.named_children[0] if call.type == "call_expression" else call
    return text(name).rpartition(".")[2]


def number(node: Node) -> int | None:
    """The argument of `@minValue(1)` and its like."""
    match = re.search(r"\.?(?:min|max)(?:Length|Value)\((-?\d+)\)$", text(node).strip())
    return int(match[1]) if match else None


def _disabled(root: Node) -> dict[int, frozenset[str]]:
    found = {}
    for node in walk(root):
        if node.type == "diagnostic_comment" and text(node).startswith("#disable-next-line"):
            found[node.start_point.row + 2] = frozenset(text(node).split()[1:])
    return found


def _has_default(node: Node) -> bool:
    declared = node.named_children[1]
    return any(text(child) == "=" for child in node.children) or any(
        child.type == "nullable_type" for child in (declared, *declared.named_children)
    )


def _resource(template: Template, node: Node, parent: str, parent_version: str | None = None) -> None:
    name, declared = (child for child in node.named_children[:2])
    kind, _, version = (literal(declared) or "").partition("@")
    whole = f"{parent}/{kind}" if parent else kind
    if version == "" and parent:
        version = parent_version or ""
    existing = any(child.type == "existing" or text(child) == "existing" for child in node.children)
    template.resources.append(Resource(text(name), whole, version or None, existing, node))
    inside = body(node)
    for each in inside.named_children if inside is not None else []:
        if each.type == "object_property" and each.named_children[0].type == "resource_declaration":
            _resource(template, each.named_children[0], whole, version)


def _module(template: Template, node: Node, name: str) -> None:
    path = literal(next(child for child in node.named_children if child.type == "string")) or ""
    template.modules.append(Module(name, path, nested(node, "params"), node))
