"""checkov's rules over the templates, offline, in an environment of its own.

checkov's Bicep parser (pycep) knows neither types nor imports nor most expressions, and a file that it cannot read
counts as one without findings. So checkov reads each resource with its literal values only: a condition takes the
branch of the isolated network, the network that the rules describe; any other expression becomes a word.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from infra.checks import environment
from infra.checks.finding import CheckFailed, Finding
from infra.checks.template import Node, Template, body, literal, parse, properties, text

HERE = Path(__file__).parent
#: a value that depends on parameters
_UNKNOWN = "'something'"
#: true where the network is open; the other branch is the isolated one
_OPEN = "privateAccess == null"
_LITERAL = ("boolean", "number")


def check(root: Path, templates: Path) -> list[Finding]:
    """The findings of checkov, without those that `checkov.yaml` skips with a reason. Raises CheckFailed."""
    pins = HERE / "checkov.txt"
    folder = environment.made(root, "checkov", Path(sys.executable), "-r", str(pins), files=(pins,))
    command = [str(folder / "bin" / "python"), "-m", "checkov.main", "--config-file", str(HERE / "checkov.yaml")]
    sources: dict[str, Path] = {}
    with tempfile.TemporaryDirectory() as plain:
        for path in sorted(templates.rglob("*.bicep")):
            if resources := with_literals(parse(path)):
                name = "_".join(path.relative_to(templates).parts)
                (Path(plain) / name).write_text(resources)
                sources[name] = path
        # without --quiet: with it, files that could not be read are missing in the output
        done = subprocess.run(
            [*command, "--directory", plain, "--output", "json", "--compact"],
            capture_output=True,
            text=True,
            check=False,
        )
    try:
        output = json.loads(done.stdout)
    except ValueError:
        lines = (done.stderr or done.stdout).strip().splitlines() or ["no output"]
        raise CheckFailed(f"checkov did not run: {lines[-1]}") from None
    found, judged = [], 0
    for report in output if isinstance(output, list) else [output]:
        results = report.get("results", {})
        judged += report.get("summary", {}).get("resource_count", 0)
        for each in results.get("failed_checks", []):
            text = f"{each['check_id']} {each['check_name']} ({each['resource']})"
            found.append(Finding(sources[Path(each["file_path"]).name], 0, "checkov", text))
        found += [
            Finding(sources[Path(path).name], 0, "checkov", "could not be read")
            for path in results.get("parsing_errors", [])
        ]
    if not judged:
        raise CheckFailed("checkov judged no resource at all")
    return found


def with_literals(template: Template) -> str:
    """The resources that a file declares, without those that it only refers to (`existing`)."""
    return "".join(_resource(node) for node in template.root.named_children if node.type == "resource_declaration")


def _resource(node: Node) -> str:
    declared = body(node)
    if declared is None or any(text(child) == "existing" for child in node.children):
        return ""
    if literal(properties(declared).get("name")) == "appsettings":
        return ""  # checkov mistakes it for the site's `web` configuration
    name, kind = (text(child) for child in node.named_children[:2])
    return f"resource {name} {kind} = {_value(declared, 0)}\n\n"


def _value(node: Node, depth: int) -> str:
    indent = "  " * depth
    if node.type == "object":
        values = {name: _value(value, depth + 1) for name, value in properties(node).items()}
        lines = [f"{indent}  {_key(name)}: {value}\n" for name, value in values.items() if value != "null"]
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
    if node.type == "null" or node.type in _LITERAL:
        return text(node)
    if node.type == "string" and "${" not in text(node):
        return text(node)
    return _UNKNOWN


def _key(name: str) -> str:
    return name if name.isidentifier() else f"'{name}'"
