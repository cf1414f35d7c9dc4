"""The kinds of expressions: literals, names, conditions, loops, lambdas and Bicep's own functions.

What cannot be followed is `ANY`. `union` and `concat` are followed further than Microsoft's compiler does.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from infra.checks import declared
from infra.checks.built_in import FUNCTIONS
from infra.checks.kinds import (
    ANY,
    BOOLEAN,
    INTEGER,
    NULL,
    STRING,
    Items,
    Kind,
    Place,
    Plain,
    Record,
    constant,
    either,
    nullable,
    present,
    published,
)
from infra.checks.template import Node, Resource, Template, ancestors, body, key_name, literal, local_names, text

#: combinations of the arguments of `union` that are followed
_MOST_COMBINED = 128
#: longer strings of a JSON file are only strings
_LONGEST_VALUE = 200
_HASH: Kind = (Plain("string", least=13, most=13),)
_GUID: Kind = (Plain("string", least=36, most=36),)
_BOOLEAN_OPERATORS = frozenset({"==", "!=", "=~", "!~", "<", "<=", ">", ">=", "&&", "||"})


class Expressions:
    """The kinds of the expressions of one template, and of what it declares."""

    def __init__(self, template: Template, templates: Mapping[Path, Template]) -> None:
        self.template = template
        self._templates = templates
        self._known: dict[int, Kind] = {}
        self._names: dict[str, Kind] = {}

    def of(self, node: Node) -> Kind:
        """The kind of an expression."""
        if node.id not in self._known:
            self._known[node.id] = ANY  # while it is looked at: what holds itself is not known
            self._known[node.id] = self._of(node)
        return self._known[node.id]

    def place(self, node: Node) -> Place:
        return Place(self.template.path, node.start_point.row + 1)

    def _of(self, node: Node) -> Kind:
        if node.type == "string":
            return (self._string(node),)
        if node.type == "number":
            return (constant(int(text(node)), self.place(node)),)
        if node.type == "boolean":
            return (constant(text(node) == "true", self.place(node)),)
        if node.type == "null":
            return (Plain("null", place=self.place(node)),)
        if node.type == "parenthesized_expression":
            return self.of(node.named_children[0])
        if node.type == "ternary_expression":
            branches = node.named_children[-2:]
            return either(self.of(each) for each in branches if not text(each).startswith("fail("))
        if node.type == "object":
            return (self._object(node),)
        if node.type == "array":
            items = [each for each in node.named_children if each.type not in ("comment", "diagnostic_comment")]
            if any(one.end_byte == next_one.start_byte for one, next_one in itertools.pairwise(items)):
                return ANY  # the grammar takes `a[0]` on a line of its own for two items
            return (self._array([self.of(each) for each in items], node),)
        if node.type == "for_statement":
            return (self._array([self._body(node)], node),)
        if node.type == "binary_expression":
            return self._binary(node)
        if node.type == "unary_expression":
            return BOOLEAN if text(node).startswith("!") else INTEGER
        if node.type == "call_expression":
            return self._call(node)
        if node.type == "identifier":
            return self._name(node)
        if node.type in ("member_expression", "subscript_expression"):
            return self._access(node)
        return ANY

    def _string(self, node: Node) -> Plain:
        value = literal(node)
        if value is not None:
            return constant(value, self.place(node))
        least, most = 0, 0 if node.named_children else None
        for part in node.named_children:
            inside = self.of(part.named_children[0]) if part.type == "interpolation" else None
            if inside is None:
                least, most = least + len(text(part)), None if most is None else most + len(text(part))
                continue
            lengths = [each for each in inside if isinstance(each, Plain) and each.name == "string"]
            known = len(lengths) == len(inside) > 0
            least += min(each.least or 0 for each in lengths) if known else 0
            ends = [each.most for each in lengths if each.most is not None] if known else []
            most = most + max(ends) if most is not None and ends and len(ends) == len(lengths) else None
        return Plain("string", None, least or None, most, place=self.place(node))

    def _object(self, node: Node) -> Record:
        found: dict[str, Kind] = {}
        places: dict[str, Place] = {}
        partial = False
        for each in node.named_children:
            if each.type != "object_property" or each.named_children[0].type == "resource_declaration":
                continue
            key, value = each.named_children[0], each.named_children[-1]
            name = key_name(key)
            if name is None or len(each.named_children) == 1:
                partial = True
                continue
            found[name], places[name] = self.of(value), self.place(key)
        return Record(found, partial=partial, places=places, place=self.place(node))

    def _array(self, kinds: list[Kind], node: Node) -> Items:
        return Items(_alternatives(kinds), place=self.place(node))

    def _body(self, loop: Node) -> Kind:
        """What a loop makes each time."""
        inner = loop.named_children[-1]
        if inner.type == "if_statement":
            inner = inner.named_children[-1]
        return self.of(inner)

    def _binary(self, node: Node) -> Kind:
        left, right = node.named_children[0], node.named_children[-1]
        operator = next(child.type for child in node.children if not child.is_named)
        if operator == "??":
            return either([present(self.of(left)), self.of(right)]) if self.of(left) else ANY
        return BOOLEAN if operator in _BOOLEAN_OPERATORS else INTEGER

    def _call(self, node: Node) -> Kind:
        name = text(node.named_children[0]).rpartition(".")[2]
        given = [each for each in node.named_children[1].named_children if each.type != "comment"]
        if name in self.template.of_kind("function"):
            return ANY
        if name in ("max", "min"):
            return self._extreme(max if name == "max" else min, [self.of(each) for each in given])
        if name == "union":
            return self._union([self.of(each) for each in given], node)
        if name == "concat":
            kinds = [self.of(each) for each in given]
            if all(kind and isinstance(kind[0], Items) for kind in kinds):
                return (Items(_alternatives([one.of for kind in kinds for one in kind if isinstance(one, Items)])),)
            return ANY
        if name == "map" and len(given) == 2 and given[1].type == "lambda_expression":
            return (Items(self.of(given[1].named_children[-1])),)
        if name in ("filter", "sort", "skip", "take") and given:
            return self.of(given[0])
        if name in ("first", "last") and given:
            return nullable(_item(self.of(given[0])))
        if name == "items" and given:
            return self._entries(self.of(given[0]))
        if name == "readEnvironmentVariable":
            return either([STRING, self.of(given[1])]) if len(given) == 2 else STRING
        if name == "loadJsonContent" and len(given) == 1 and (path := literal(given[0])) is not None:
            return _json(self.template.path.parent / path)
        if name in ("uniqueString", "guid", "newGuid"):
            return _HASH if name == "uniqueString" else _GUID
        return FUNCTIONS.get(name, ANY)

    def _extreme(self, choose: Any, kinds: list[Kind]) -> Kind:
        """`max` and `min`: what is known of one argument holds of the result in one direction."""
        numbers = [each for kind in kinds for each in kind]
        if not all(kinds) or not all(isinstance(each, Plain) for each in numbers):
            return INTEGER
        lows = [each.least for each in numbers if isinstance(each, Plain)]
        highs = [each.most for each in numbers if isinstance(each, Plain)]
        some, every = (lows, highs) if choose is max else (highs, lows)
        known = [each for each in some if each is not None]
        one = choose(known) if known and len(kinds) == len(numbers) else None
        other = choose(each for each in every if each is not None) if None not in every else None
        least, most = (one, other) if choose is max else (other, one)
        return (Plain("integer", None, least, most),)

    def _union(self, kinds: list[Kind], node: Node) -> Kind:
        """Each combination of the objects; an argument that is not known may hold anything."""
        if any(isinstance(each, Items) for kind in kinds for each in kind):
            return (Items(_alternatives([one.of for kind in kinds for one in kind if isinstance(one, Items)])),)
        choices = [kind or (Record({}, partial=True),) for kind in kinds]
        combined = list(itertools.islice(itertools.product(*choices), _MOST_COMBINED + 1))
        if len(combined) > _MOST_COMBINED:
            return ANY
        found = []
        for records in combined:
            known = [each for each in records if isinstance(each, Record)]
            found.append(
                Record(
                    _overlaid(known),
                    partial=any(each.partial or each.others is not None for each in known),
                    places={name: place for each in known for name, place in each.places.items()},
                    place=self.place(node),
                )
            )
        return tuple(found)

    def _entries(self, kind: Kind) -> Kind:
        """`items(...)`: keys and values of an object."""
        held = [value for each in kind if isinstance(each, Record) for value in each.properties.values()]
        closed = all(isinstance(each, Record) and not each.partial and each.others is None for each in kind)
        return (Items((Record({"key": STRING, "value": _alternatives(held) if closed else ANY}),)),)

    def _name(self, node: Node) -> Kind:
        local = self._local(node)
        return self.declared(text(node)) if local is None else local

    def _local(self, node: Node) -> Kind | None:
        """What a loop, lambda or function around the node calls by this name; None: none does."""
        name, inner = text(node), node
        for around in ancestors(node):
            head = around.named_children[0] if around.named_children else around
            if around.type == "for_statement" and inner.id == around.named_children[-1].id:
                names = local_names(head)
                if name in names:
                    return _item(self.of(around.named_children[1])) if name == names[0] else INTEGER
            if around.type == "lambda_expression" and inner.id != head.id:
                names = local_names(head)
                if name in names:
                    return self._argument(around) if name == names[0] else ANY
            if around.type == "user_defined_function":
                return ANY
            inner = around
        return None

    def _argument(self, function: Node) -> Kind:
        """What `map` and `filter` give to a lambda: the items of their array."""
        arguments = function.parent
        call = arguments.parent if arguments is not None else None
        if arguments is None or call is None or text(call.named_children[0]) not in ("map", "filter"):
            return ANY
        return _item(self.of(arguments.named_children[0]))

    def declared(self, name: str) -> Kind:
        """What a parameter, variable, resource or module of the template is."""
        if name not in self._names:
            self._names[name] = ANY
            self._names[name] = self._declared(name)
        return self._names[name]

    def _declared(self, name: str) -> Kind:
        found = {each.name: each for each in self.template.declared if each.kind not in ("output", "type")}.get(name)
        if found is None:
            return ANY
        if found.kind == "parameter":
            return declared.parameter(self.template, found, self._templates)
        if found.kind == "variable" and found.value is not None:
            return self.of(found.value)
        if found.kind == "resource":
            resource = next(each for each in self.template.resources if each.node.id == found.node.id)
            return _repeated(resource.node, (_readable(resource),))
        if found.kind == "module":
            return _repeated(found.node, (self._module(name),))
        return ANY

    def _module(self, name: str) -> Record:
        module = next(each for each in self.template.modules if each.name == name)
        target = self.template.other(module.path, self._templates)
        if target is None:
            return Record({}, others=ANY)
        found = target.of_kind("output")
        outputs = {one: declared.output(target, each, self._templates) for one, each in found.items()}
        return Record({"name": STRING, "outputs": (Record(outputs),)})

    def _access(self, node: Node) -> Kind:
        kind, name = present(self.owner(node)), key(node)
        found = _item(kind) if name is None else _member(kind, name)
        return nullable(found) if found and is_short_circuited(node) else found

    def owner(self, access: Node) -> Kind:
        """What something is read of; ANY where the grammar binds the access to too much, as in `x => x.a == y.b`."""
        owner = access.named_children[0]
        if owner.type in ("lambda_expression", "binary_expression", "array"):
            return ANY
        asserted = text(owner).endswith("!") or any(text(child) == "!" for child in access.children)
        return present(self.of(owner)) if asserted else self.of(owner)


def key(access: Node) -> str | None:
    """The name that `.name` or `['name']` reads; None: another kind of index."""
    last = access.named_children[-1]
    return text(last) if access.type == "member_expression" else literal(last)


def is_short_circuited(access: Node) -> bool:
    """Whether it or an access before it is safe (`.?name`, `[?index]`): then all that follows is null where that is."""
    while access.type in ("member_expression", "subscript_expression"):
        if any(child.type in (".?", "?") for child in access.children):
            return True
        access = access.named_children[0]
    return False


def _repeated(node: Node, kind: Kind) -> Kind:
    """Of a loop there are several; a conditional one may be null."""
    loop = next((child for child in node.named_children if child.type == "for_statement"), None)
    conditional = any(child.type == "if_statement" for child in (node if loop is None else loop).named_children)
    kind = nullable(kind) if conditional else kind
    return kind if loop is None else (Items(kind),)


def _readable(resource: Resource) -> Record:
    """What may be read of a resource."""
    found = published().get(f"{resource.type}@{resource.api_version}".lower())
    if found is None or found.discriminator is not None or body(resource.node) is None:
        return Record({}, others=ANY)
    return replace(found, properties={**found.properties, "name": STRING})


def _overlaid(records: list[Record]) -> dict[str, Kind]:
    """The properties of a `union`: the last one counts, but objects of one name are merged, which is not followed."""
    found: dict[str, Kind] = {}
    for each in records:
        for name, kind in each.properties.items():
            merged = name in found and any(isinstance(one, Record) for one in kind)
            found[name] = ANY if merged else kind
    return found


def _alternatives(kinds: list[Kind]) -> Kind:
    """One of several; what is not known of one leaves what is known of the others."""
    return either(kind for kind in kinds if kind)


def _item(kind: Kind) -> Kind:
    """An element of an array, or a value of an object that is indexed."""
    if not kind or not all(isinstance(each, Items) for each in kind):
        return ANY
    return either(each.of for each in kind if isinstance(each, Items))


def _member(kind: Kind, name: str) -> Kind:
    found = []
    for each in kind:
        if not isinstance(each, Record) or each.discriminator is not None or each.partial:
            return ANY
        held = each.properties.get(name, each.others)
        if held is None or name in each.read_only:
            return ANY
        found.append(held)
    return either(found)


def _json(path: Path) -> Kind:
    """The content of a file; what cannot be read is not known."""
    try:
        return _content(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return ANY


def _content(value: Any) -> Kind:
    if isinstance(value, dict):
        return (Record({name: _content(each) for name, each in value.items()}),)
    if isinstance(value, list):
        return (Items(_alternatives([_content(each) for each in value])),)
    if isinstance(value, str) and len(value) > _LONGEST_VALUE:
        return (Plain("string", None, len(value), len(value)),)
    if isinstance(value, str | int):
        return (constant(value),)
    return NULL if value is None else ANY
