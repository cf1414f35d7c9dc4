"""Every name that users outside this repository may rely on, collected from the running code.

`tests/promised_names.json` has the promised names; `tests/test_promised_names.py` compares. A new name is added by
`python -m tests.promised_names --add`, which never removes one: that needs an edit by hand, and a reason.
"""

from __future__ import annotations

import argparse
import ast
import asyncio
import contextlib
import io
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import typer
from graphql import GraphQLObjectType, build_schema

import emulator.__main__ as emulator
import platform_service.__main__ as platform_service
from lucius_client.cli.exits import Exit
from lucius_client.cli.main import app as lucius
from shared.access.caller import Scope
from shared.apidocs import event_schemas
from shared.apidocs.operation import refusals_of
from shared.core.jobs import durable_names
from shared.settings import SETTINGS
from shared.telemetry.lines import LINES
from shared.telemetry.metric_table import METRICS
from shared.telemetry.span_table import SPANS
from tests.stored_names import stored_and_sent
from triggers import graphql_http
from triggers.registered import ROUTES

ROOT = Path(__file__).resolve().parents[1]
FILE = Path(__file__).with_name("promised_names.json")

#: deployed files: their upper-case words are states, codes, reasons and types of messages and EVENT rows
_APP = ("function_app.py", "shared", "triggers", "orchestrations", "activities")
#: and files that others run
_PROGRAMS = ("packages", "scripts", "platform_service", "emulator")

#: modules for `python -m`, by their program
_WITH_OPTIONS: dict[str, Callable[[list[str]], int]] = {
    **{f"emulator {name}": emulator.main for name in ("up", "bus", "host", "appconfig", "issuer", "traces")},
    "platform_service": platform_service.main,
}

Names = dict[str, list[str]]


def collect() -> Names:
    """By kind, each list sorted and without doubles."""
    document = json.loads((ROOT / "docs" / "openapi.json").read_text("utf-8"))
    bus = json.loads((ROOT / "docs" / "asyncapi.json").read_text("utf-8"))
    app = list(_literals(*_APP))
    programs = list(_literals(*_PROGRAMS))
    found: dict[str, set[str]] = {
        "settings": {each.name for each in SETTINGS},
        "environment": {text for text in app + programs if re.fullmatch(r"(LUCIUS|OTEL|EMULATOR)_[A-Z0-9_]+", text)},
        "routes": {f"{each.method} /{each.path} ({each.function})" for each in ROUTES},
        "functions": _functions(),
        "external events": {
            durable_names.ack_event("S", 1),
            durable_names.result_event("S", 1),
            durable_names.resume_event(1),
        },
        "public events": _of_events(),
        "graphql fields": set(_of_graphql()),
        "http fields": _fields(document["components"]["schemas"]),
        "bus fields": _fields(bus["components"]["schemas"]),
        "codes": {text for text in app if re.fullmatch(r"[A-Z][A-Z0-9]*(_[A-Z0-9]+)+|[A-Z]{3,}", text)}
        | {each.code for route in ROUTES for each in refusals_of(route)},
        "prefixed": {text for text in app if re.fullmatch(r"(lucius[.:_/-]|global-bus|orch:|urn:lucius)[^ ]*", text)},
        "scopes": {str(each) for each in Scope},
        "metrics": {f"{each.name}{{{','.join(each.attributes)}}}" for each in METRICS},
        "spans": {str(each.name) for each in SPANS},
        "log events": {each.event for each in LINES},
        "commands": set(_commands(typer.main.get_command(lucius), "lucius")) | set(_options_of_programs()),
        "exit codes": {f"{each.name}={each.value}" for each in Exit},
        "make targets": set(re.findall(r"^([a-z][a-z-]*):.*##", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)),
        **asyncio.run(stored_and_sent()),
    }
    return {kind: sorted(names) for kind, names in found.items()}


def _literals(*places: str) -> Iterator[str]:
    """Every text in the code of these folders that is no docstring."""
    listed = subprocess.run(["git", "ls-files", *places], cwd=ROOT, capture_output=True, text=True, check=True)
    for name in listed.stdout.splitlines():
        if name.endswith(".py") and (ROOT / name).exists():
            for node in ast.walk(ast.parse((ROOT / name).read_text("utf-8"))):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    yield node.value


def _of_graphql() -> Iterator[str]:
    """Each field as `Type.field`, and each argument of one as `Type.field(argument)`."""
    for name, each in build_schema(graphql_http.schema()).type_map.items():
        if isinstance(each, GraphQLObjectType) and not name.startswith("__"):
            for member, field in each.fields.items():
                yield f"{name}.{member}"
                yield from (f"{name}.{member}({argument})" for argument in field.args)


def _functions() -> set[str]:
    """Returns each function of the app with its trigger, from a separate process, since an app is built once."""
    code = (
        "import function_app, json\n"
        "print(json.dumps([[f.get_function_name(), f.get_trigger().get_dict_repr()['type']]"
        " for f in function_app.app.get_functions()]))"
    )
    settings = {
        "LUCIUS_STORAGE_BACKEND": "memory",
        "LUCIUS_AUTH_MODE": "none",
        "LUCIUS_EVENTS": "feed",
        "LUCIUS_SERVICEBUS_CONNECTION": "Endpoint=sb://127.0.0.1;SharedAccessKeyName=n;SharedAccessKey=k",
    }
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=settings, capture_output=True, text=True, check=True
    )
    return {f"{name} ({kind})" for name, kind in json.loads(done.stdout.splitlines()[-1])}


def _of_events() -> set[str]:
    """Each member of each type of public events."""
    found: set[str] = set()
    for type_, schema in event_schemas.documents().items():
        data = schema["properties"]["data"]["properties"]
        found |= {f"{type_}.{name}" for name in schema["properties"]}
        found |= {f"{type_}.data.{name}" for name in data}
        for part in ("payload", "provenance"):
            found |= {f"{type_}.data.{part}.{name}" for name in data[part]["properties"]}
    return found


def _fields(schemas: dict[str, Any]) -> set[str]:
    """Returns `Model.member`, and `Model=VALUE` for a member that has only some allowed values."""
    found: set[str] = set()

    def walk(name: str, node: Any) -> None:
        if isinstance(node, list):
            for each in node:
                walk(name, each)
        if not isinstance(node, dict):
            return
        for member, each in node.get("properties", {}).items():
            found.add(f"{name}.{member}")
            walk(f"{name}.{member}", each)
        found.update(
            f"{name}={value}" for value in [*node.get("enum", ()), *([node["const"]] if "const" in node else [])]
        )
        for key in ("items", "anyOf", "allOf", "oneOf", "additionalProperties"):
            walk(name, node.get(key))

    for name, schema in schemas.items():
        walk(name, schema)
    return found


def _commands(command: Any, path: str) -> Iterator[str]:
    """`lucius job show`, and each of its options and arguments."""
    yield path
    for parameter in command.params:
        for option in (
            parameter.opts if parameter.opts[0].startswith("-") else [parameter.metavar or parameter.name.upper()]
        ):
            yield f"{path} {option}"
    for name, each in getattr(command, "commands", {}).items():
        yield from _commands(each, f"{path} {name}")


def _options_of_programs() -> Iterator[str]:
    for program, run in _WITH_OPTIONS.items():
        help_text = io.StringIO()
        with contextlib.redirect_stdout(help_text), contextlib.suppress(SystemExit):
            run([*program.split()[1:], "--help"])
        yield f"python -m {program}"
        options = re.findall(r"(?<![\w-])--[a-z][a-z-]*", help_text.getvalue())
        yield from {f"python -m {program} {option}" for option in options}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--add", action="store_true", help="write the names that are new into the file")
    add = parser.parse_args().add
    found = collect()
    promised: Names = json.loads(FILE.read_text("utf-8")) if FILE.exists() else {}
    lost = {kind: sorted(set(names) - set(found.get(kind, ()))) for kind, names in promised.items()}
    new = {kind: sorted(set(names) - set(promised.get(kind, ()))) for kind, names in found.items()}
    for sign, names in (("-", lost), ("+", new)):
        for kind, each in sorted(names.items()):
            print(*(f"{sign} {kind}: {name}" for name in each), sep="\n", end="\n" if each else "")
    if add:
        whole = {kind: sorted({*promised.get(kind, ()), *found.get(kind, ())}) for kind in sorted({*promised, *found})}
        FILE.write_text(json.dumps(whole, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return 1 if any(lost.values()) or (any(new.values()) and not add) else 0


if __name__ == "__main__":
    sys.exit(main())
