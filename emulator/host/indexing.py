"""Finds the functions of an app by importing its `function_app.py` and reading the metadata it declares.

The rules are the Python worker's: one trigger a function, every binding a parameter and every parameter a
binding, names unique. An app that cannot be read at all is a `HostError`; a function that cannot be served is
left out, as the real host does, and its problem is given back.
"""

from __future__ import annotations

import importlib.util
import inspect
import json
import sys
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from .errors import BindingError, HostError
from .functions import Binding, Function
from .retry_policy import delays
from .routes import parse_template
from .schedule import parse_schedule
from .settings import Settings

_SCRIPT = "function_app.py"

#: Bindings this host serves, with the word Azure uses for them.
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

#: Fields that hold the name of a setting, or text that is no template.
_NOT_TEMPLATES = frozenset({"connection", "type", "direction", "name", "dataType"})


@dataclass(frozen=True, slots=True)
class App:
    """`problems` are of functions left out, one line each."""

    directory: Path
    functions: tuple[Function, ...]
    problems: tuple[str, ...]


def index_app(app_dir: Path, settings: Settings) -> App:
    module = _import_script(app_dir)
    declared = _functions_of(module, app_dir)
    functions, problems = [], []
    routes: dict[tuple[str, str], str] = {}
    for one in sorted(declared, key=lambda one: str(one.get_function_name())):
        name = one.get_function_name()
        try:
            function = _read(name, one, settings)
            _claim_route(function, routes)
            functions.append(function)
        except BindingError as error:
            problems.append(f"{name}: {error}")
    return App(app_dir, tuple(functions), tuple(problems))


def _import_script(app_dir: Path) -> ModuleType:
    path = app_dir / _SCRIPT
    if not path.exists():
        raise HostError(f"{path} is missing: only apps of the Python v2 programming model are served")
    sys.path.insert(0, str(app_dir))
    spec = importlib.util.spec_from_file_location("function_app", path)
    if spec is None or spec.loader is None:
        raise HostError(f"{path} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules["function_app"] = module
    try:
        spec.loader.exec_module(module)
    except SyntaxError as error:
        raise HostError(f"{error.filename}:{error.lineno}: SyntaxError: {error.msg}") from None
    except (Exception, SystemExit) as error:
        raise HostError(f"{_place(error, app_dir)}: {type(error).__name__}: {_one_line(error)}") from None
    return module


def _place(error: BaseException, app_dir: Path) -> str:
    """The innermost line of the app's own code, else of any."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [
        frame for frame in frames if frame.filename.startswith(str(app_dir)) and "site-packages" not in frame.filename
    ]
    frame = (own or frames)[-1]
    return f"{frame.filename}:{frame.lineno}"


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())


def _functions_of(module: ModuleType, app_dir: Path) -> Sequence[Any]:
    from azure.functions import FunctionRegister

    apps = {id(value): value for value in vars(module).values() if isinstance(value, FunctionRegister)}
    if len(apps) != 1:
        found = "no" if not apps else "more than one"
        raise HostError(f"{app_dir / _SCRIPT}: {found} FunctionApp object at the top level of the module")
    (app,) = apps.values()
    try:
        return list(app.get_functions())
    except ValueError as error:
        raise HostError("\n".join(_all_problems(app)) or _one_line(error)) from None


def _all_problems(app: Any) -> list[str]:
    """The SDK stops at the first problem; this names all of them."""
    problems, seen = [], set()
    for builder in app._function_builders:
        name = builder._function.get_function_name()
        try:
            builder.build(app.auth_level)
        except ValueError as error:
            problems.append(_one_line(error))
        if name in seen:
            problems.append(f"{name}: the function name is used more than once")
        seen.add(name)
    return problems


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
    parameters, wants_context = _check_parameters(call, bindings)
    for one in bindings:
        if one.text("connection") is not None and one.type != "durableClient":
            settings.connection(str(one.fields["connection"]))
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
        parameters=parameters,
        wants_context=wants_context,
        retry=declared.get_settings_dict("retry_policy"),
    )


def _claim_route(function: Function, taken: dict[tuple[str, str], str]) -> None:
    """Two functions on one route and method: the second by name would never be reached."""
    if function.trigger.type != "httpTrigger":
        return
    fields = function.trigger.fields
    route = str(fields.get("route") or function.name).lower().strip("/")
    claims = [(route, str(method).upper()) for method in fields.get("methods") or ("any",)]
    for claim in claims:
        if claim in taken:
            raise BindingError(f"the route {route!r} ({claim[1]}) is the one of {taken[claim]} already")
    taken.update(dict.fromkeys(claims, function.name))


def _binding(raw: Mapping[str, Any], settings: Settings) -> Binding:
    fields = {
        key: settings.resolve(value) if isinstance(value, str) and key not in _NOT_TEMPLATES else value
        for key, value in raw.items()
    }
    return Binding(str(raw["type"]), str(raw["name"]), str(raw["direction"]).upper(), fields)


def _check_types(trigger: Binding, inputs: Sequence[Binding], outputs: Sequence[Binding]) -> None:
    for known, bindings, word in (
        (TRIGGERS, [trigger], "trigger"),
        (INPUTS, inputs, "input binding"),
        (OUTPUTS, outputs, "output binding"),
    ):
        for one in bindings:
            if one.type not in known:
                raise BindingError(f"the {word} type {one.type!r} is not served here ({', '.join(sorted(known))} are)")


def _check_parameters(call: Any, bindings: Sequence[Binding]) -> tuple[frozenset[str], bool]:
    parameters = {
        name: one
        for name, one in inspect.signature(call).parameters.items()
        if one.kind not in (one.VAR_KEYWORD, one.VAR_POSITIONAL)
    }
    bound = {one.name for one in bindings if one.name != "$return"}
    missing = sorted(bound - set(parameters))
    if missing:
        raise BindingError(f"bound names that are no parameters of the function: {', '.join(missing)}")
    wants_context = "context" in parameters and "context" not in bound
    unbound = sorted(set(parameters) - bound - ({"context"} if wants_context else set()))
    if unbound:
        raise BindingError(f"parameters without a binding: {', '.join(unbound)}")
    outs = {one.name for one in bindings if one.direction == "OUT"}
    for name, one in parameters.items():
        _check_annotation(name, one.annotation, is_out=name in outs)
    return frozenset(parameters), wants_context


def _check_annotation(name: str, annotation: Any, *, is_out: bool) -> None:
    """The worker takes plain types only, and `func.Out[...]` for outputs."""
    if isinstance(annotation, str):
        annotation = annotation.strip()
        is_union = "|" in annotation or annotation.startswith(("Optional[", "typing.Optional["))
        declared_out = "Out[" in annotation or annotation.endswith("Out")
    else:
        is_union = type(annotation).__name__ in ("UnionType", "_UnionGenericAlias")
        origin = getattr(annotation, "__origin__", annotation)
        declared_out = getattr(origin, "__name__", "") == "Out"
    if is_union:
        raise BindingError(f"the parameter {name!r} must have a plain type, not {annotation}")
    if is_out and annotation is not inspect.Parameter.empty and not declared_out:
        raise BindingError(f"the output parameter {name!r} must be annotated func.Out[...]")
    if declared_out and not is_out:
        raise BindingError(f"the parameter {name!r} is annotated func.Out but has no output binding")
