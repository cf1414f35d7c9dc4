"""The resources of a template in the little Bicep that checkov's parser reads.

That parser (pycep) knows neither types nor imports nor most expressions, and a file that it cannot read counts as one
without findings. So each resource is written anew with its literal values: a condition takes the branch of the isolated
network, which is the one that may be judged; any other expression becomes a word.
"""

from __future__ import annotations

from infra.checks.template import Node, Template, body, literal, properties, text

#: a value that depends on parameters
_SOMETHING = "'something'"
#: true where the network is open; the other branch is the isolated one
_OPEN = "privateAccess == null"
_SAME = ("boolean", "number")


def plain(template: Template) -> str:
    """The resources of a file, those that exist already left out."""
    return "".join(_resource(node) for node in template.root.named_children if node.type == "resource_declaration")


def _resource(node: Node) -> str:
    declared = body(node)
    if declared is None or any(text(child) == "existing" for child in node.children):
        return ""
    if literal(properties(declared).get("name")) == "appsettings":
        return ""  # checkov takes it for the site's `web` configuration
    name, kind = (text(child) for child in node.named_children[:2])
    return f"resource {name} {kind} = {_value(declared, 0)}\n\n"


def _value(node: Node, depth: int) -> str:
    indent = "  " * depth
    if node.type == "object":
        found = {name: _value(value, depth + 1) for name, value in properties(node).items()}
        lines = [f"{indent}  {_key(name)}: {value}\n" for name, value in found.items() if value != "null"]
        return "{\n" + "".join(lines) + indent + "}" if lines else "{}"
    if node.type == "array":
        items = [_value(each, depth + 1) for each in node.named_children if each.type != "comment"]
        return "[\n" + "".join(f"{indent}  {item}\n" for item in items) + indent + "]" if items else "[]"
    if node.type == "for_statement":
        one = body(node)
        return f"[\n{indent}  {_value(one, depth + 1)}\n{indent}]" if one is not None else "[]"
    if node.type == "ternary_expression":
        condition, true, false = node.named_children
        return _value(false if _OPEN in text(condition) else true, depth)
    if node.type == "null" or node.type in _SAME:
        return text(node)
    if node.type == "string" and "${" not in text(node):
        return text(node)
    return _SOMETHING


def _key(name: str) -> str:
    return name if name.isidentifier() else f"'{name}'"
