"""Finds the functions of an app. Imports its `function_app.py` and reads the metadata that this script declares.

The setting PYTHON_SCRIPT_FILE_NAME names another script. The rules are those of the Python worker: one trigger per
function, a parameter for every binding, a binding for every parameter, unique names. If a function cannot be served, it
is omitted, with a problem (docs/decisions/0007).
"""

from __future__ import annotations

import importlib.util
import inspect
import json
import logging
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from functions_emulator.host.errors import BindingError, HostError, WorkerRefusesError
from functions_emulator.host.functions import Binding, Function
from functions_emulator.host.http_streams import annotation_rules
from functions_emulator.host.retry_policy import delays
from functions_emulator.host.routes import parse_template
from functions_emulator.host.schedule import parse_schedule
from functions_emulator.host.settings import Settings
from functions_emulator.host.signature import read_signature

_LOG = logging.getLogger("functions_emulator.host")

#: binding types that this host serves
TRIGGERS = frozenset(
    {
        "httpTrigger",
        "timerTrigger",
        "serviceBusTrigger",
        "queueTrigger",
        "blobTrigger",
        "orchestrationTrigger",
        "activityTrigger",
        "entityTrigger",
    }
)
INPUTS = frozenset({"durableClient", "blob", "table"})
OUTPUTS = frozenset({"http", "serviceBus", "queue", "blob", "table"})

#: services whose bindings need a connection
_CONNECTED = frozenset({"serviceBus", "blob", "queue", "table"})

#: fields in which `%SETTING%` is not replaced
_NOT_TEMPLATES = frozenset({"connection", "type", "direction", "name", "dataType"})


@dataclass(frozen=True, slots=True)
class App:
    """The functions of an app."""

    directory: Path
    functions: tuple[Function, ...]
    #: a line for each function that cannot be served
    problems: tuple[str, ...]
    #: names of the functions because of which Azure's worker would refuse the whole app
    refusals: tuple[str, ...]


def index_app(app_dir: Path, settings: Settings) -> App:
    """Imports the app and reads its functions. Raises `HostError` if the app cannot be read."""
    script = app_dir / (settings.get("PYTHON_SCRIPT_FILE_NAME") or "function_app.py")
    module = _import_script(script)
    functions: dict[str, Function] = {}
    problems, refusals = [], []
    routes: list[Function] = []
    for name, declared in sorted(_functions_of(module, script), key=lambda one: one[0]):
        try:
            if settings.disabled(name):
                _LOG.info("%s is switched off by its setting", name)
                continue
            if isinstance(declared, BindingError):
                raise declared
            if name.lower() in functions:
                raise WorkerRefusesError(
                    "the name is used more than once; only the first function with this name is served"
                )
            function = _read(name, declared, settings)
            _claim_route(function, routes)
            functions[name.lower()] = function
        except BindingError as error:
            problems.append(f"{name}: {error}")
            if isinstance(error, WorkerRefusesError):
                refusals.append(name)
    return App(app_dir, tuple(functions.values()), tuple(problems), tuple(refusals))


def _import_script(path: Path) -> ModuleType:
    app_dir = path.parent
    if not path.exists():
        raise HostError(f"{path} is missing: only apps of the Python v2 programming model are served")
    sys.path.insert(0, str(app_dir))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise HostError(f"{path} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    try:
        spec.loader.exec_module(module)
    except SyntaxError as error:
        raise HostError(f"{error.filename}:{error.lineno}: SyntaxError: {error.msg}") from None
    except (Exception, SystemExit) as error:
        raise HostError(f"{_place(error, app_dir)}: {type(error).__name__}: {_one_line(error)}") from None
    return module


def _place(error: BaseException, app_dir: Path) -> str:
    """Returns file and line of the innermost frame in the app's own code, else of the innermost frame."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [
        frame for frame in frames if frame.filename.startswith(str(app_dir)) and "site-packages" not in frame.filename
    ]
    frame = (own or frames)[-1]
    return f"{frame.filename}:{frame.lineno}"


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())


def _functions_of(module: ModuleType, script: Path) -> Iterator[tuple[str, Any]]:
    from azure.functions import FunctionRegister

    apps = {id(value): value for value in vars(module).values() if isinstance(value, FunctionRegister)}
    if len(apps) != 1:
        count = "no" if not apps else "more than one"
        raise HostError(f"{script}: {count} FunctionApp object at the top level of the module")
    (app,) = apps.values()
    return _build_all(app)


def _build_all(app: Any) -> Iterator[tuple[str, Any]]:
    """Yields every function with its name, or a `BindingError` in its place.

    `get_functions` of the SDK stops at the first problem, as does the worker on Azure, which then serves no function.
    """
    for builder in app._function_builders:
        name = str(builder._function.get_function_name())
        try:
            yield name, builder.build(app.auth_level)
        except ValueError as error:
            yield name, WorkerRefusesError(_one_line(error))


def _read(name: str, declared: Any, settings: Settings) -> Function:
    raw = json.loads(declared.get_function_json())["bindings"]
    bindings = [_binding(one, settings) for one in raw]
    triggers = [one for one in bindings if one.type.lower().endswith("trigger")]
    if len(triggers) != 1:
        raise BindingError(f"{len(triggers)} triggers declared, must be one")
    trigger = triggers[0]
    call = declared.get_user_function()
    inputs = tuple(one for one in bindings if one is not trigger and one.direction == "IN")
    outputs = tuple(one for one in bindings if one is not trigger and one.direction == "OUT")
    _check_types(trigger, inputs, outputs)
    if trigger.type == "httpTrigger":
        parse_template(str(trigger.fields.get("route") or name))
    elif trigger.type == "timerTrigger":
        parse_schedule(str(trigger.fields.get("schedule")))
        delays(declared.get_settings_dict("retry_policy"))
    signature = read_signature(call, bindings, annotation_rules())
    for one in bindings:
        if one.service in _CONNECTED:
            settings.connection(one.connection, one.service)
    is_async = inspect.iscoroutinefunction(call)
    if any(one.type == "durableClient" for one in inputs) and not inspect.iscoroutinefunction(
        getattr(call, "client_function", call)
    ):
        raise BindingError("a function with a durable client must be `async def`")
    return Function(
        name=name,
        call=call,
        is_async=is_async,
        trigger=trigger,
        inputs=inputs,
        outputs=outputs,
        plain_inputs=signature.plain_inputs,
        takes_context=signature.takes_context,
        may_return=signature.may_return,
        retry=declared.get_settings_dict("retry_policy"),
    )


def _claim_route(function: Function, taken: list[Function]) -> None:
    """Raises `BindingError` if another function has the same route and method. No methods means all methods."""
    if function.trigger.type != "httpTrigger":
        return
    route, methods = _route_and_methods(function)
    for other in taken:
        other_route, other_methods = _route_and_methods(other)
        if route == other_route and (not methods or not other_methods or methods & other_methods):
            conflict = ", ".join(sorted(methods & other_methods or methods or other_methods)) or "any method"
            raise BindingError(f"the function {other.name} already has the route {route!r} ({conflict})")
    taken.append(function)


def _route_and_methods(function: Function) -> tuple[str, frozenset[str]]:
    fields = function.trigger.fields
    route = str(fields.get("route") or function.name).lower().strip("/")
    return route, frozenset(str(method).upper() for method in fields.get("methods") or ())


def _binding(raw: Mapping[str, Any], settings: Settings) -> Binding:
    fields = {
        key: settings.resolve(value) if isinstance(value, str) and key not in _NOT_TEMPLATES else value
        for key, value in raw.items()
    }
    return Binding(str(raw["type"]), str(raw["name"]), str(raw["direction"]).upper(), fields)


def _check_types(trigger: Binding, inputs: Sequence[Binding], outputs: Sequence[Binding]) -> None:
    for served, bindings, word in (
        (TRIGGERS, [trigger], "trigger"),
        (INPUTS, inputs, "input binding"),
        (OUTPUTS, outputs, "output binding"),
    ):
        for one in bindings:
            if one.type not in served:
                raise BindingError(f"the {word} type {one.type!r} is not supported; use {' or '.join(sorted(served))}")
