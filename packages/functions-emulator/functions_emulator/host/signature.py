"""The rules of the Python worker for the parameters and annotations of a function.

Source: functions.Registry of azure-functions-python-worker. The worker refuses the whole app for one such mistake. This
host omits only the function with the mistake (docs/decisions/0007).
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from azure.functions import get_binding_registry

from functions_emulator.host.errors import WorkerRefusesError
from functions_emulator.host.functions import Binding


@dataclass(frozen=True, slots=True)
class AnnotationRules:
    """The annotations that an HTTP extension allows for the request parameter and the return value."""

    takes_request: Callable[[Any], bool]
    takes_response: Callable[[Any], bool]


@dataclass(frozen=True, slots=True)
class Signature:
    """The facts that the host needs to call a function. The fields are those of `Function`."""

    takes_context: bool
    plain_inputs: Mapping[str, type]
    may_return: bool


def read_signature(call: Any, bindings: Sequence[Binding], http: AnnotationRules | None) -> Signature:
    """Checks a function against its bindings. `http` are the rules of an HTTP extension, if the app uses such an
    extension.

    Raises `WorkerRefusesError` for a function that breaks a rule.
    """
    parameters = {name for name, one in inspect.signature(call).parameters.items() if one.kind not in _COLLECTORS}
    try:
        hints = typing.get_type_hints(call)
    except (NameError, TypeError, AttributeError) as error:
        raise WorkerRefusesError(f"its annotations cannot be resolved: {error}") from None
    bound = {one.name: one for one in bindings if one.name != "$return"}
    if missing := sorted(bound.keys() - parameters):
        raise WorkerRefusesError(f"bindings without a parameter of the function: {', '.join(missing)}")
    takes_context = "context" in parameters and "context" not in bound
    if takes_context and getattr(hints.get("context"), "__name__", "Context") != "Context":
        raise WorkerRefusesError("the parameter 'context' must be annotated azure.functions.Context")
    if unbound := sorted(parameters - bound.keys() - ({"context"} if takes_context else set())):
        raise WorkerRefusesError(f"parameters without a binding: {', '.join(unbound)}")
    plain_inputs = {}
    for name, binding in bound.items():
        if name in hints and _check_parameter(binding, hints[name], http):
            plain_inputs[name] = hints[name]
    returned = next((one for one in bindings if one.name == "$return"), None)
    if returned is not None and "return" in hints:
        _check_return(returned, hints["return"], http)
    return Signature(takes_context, plain_inputs, returned is not None or any(map(_returns_by_itself, bound.values())))


_COLLECTORS = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)


def _check_parameter(binding: Binding, hint: Any, http: AnnotationRules | None) -> bool:
    """Returns True if the function gets the plain value."""
    name, is_out = binding.name, binding.direction == "OUT"
    origin = typing.get_origin(hint) or hint
    declared_out = isinstance(origin, type) and origin.__name__ == "Out"
    parameter_type = (typing.get_args(hint) or (hint,))[0] if declared_out else hint
    if not isinstance(parameter_type, type) and not _is_generic(parameter_type):
        raise WorkerRefusesError(f"the parameter {name!r} must have a plain type, not {_type_name(hint)}")
    if is_out and not declared_out:
        raise WorkerRefusesError(f"the output parameter {name!r} must be annotated func.Out[...]")
    if declared_out and not is_out:
        raise WorkerRefusesError(f"the parameter {name!r} is annotated func.Out but has no output binding")
    bare = parameter_type in (str, bytes) and not _returns_by_itself(binding)
    if not bare and not _fits(binding, parameter_type, is_out=is_out, http=http):
        raise WorkerRefusesError(f"the parameter {name!r} of a {binding.type} cannot be a {_type_name(parameter_type)}")
    return bare and not is_out


def _check_return(binding: Binding, hint: Any, http: AnnotationRules | None) -> None:
    if not isinstance(hint, type):
        raise WorkerRefusesError(f"the return annotation must be a plain type, not {_type_name(hint)}")
    if not _fits(binding, hint, is_out=True, http=http):
        raise WorkerRefusesError(f"the return annotation {_type_name(hint)} does not fit the {binding.type} output")


def _fits(binding: Binding, annotated: Any, *, is_out: bool, http: AnnotationRules | None) -> bool:
    if http is not None and binding.type == "httpTrigger":
        return http.takes_request(annotated)
    if http is not None and binding.type == "http":
        return http.takes_response(annotated)
    converter = _converter(binding)
    try:
        if converter is None:
            return issubclass(annotated, (str, bytes, bytearray) if is_out else (str, bytes))
        check = converter.check_output_type_annotation if is_out else converter.check_input_type_annotation
        return bool(check(annotated))
    except TypeError:  # issubclass() of something like List[str]
        return False


def _returns_by_itself(binding: Binding) -> bool:
    """Returns True if the trigger takes the return value without an output binding, as that of an activity does."""
    converter = _converter(binding)
    return binding.type != "durableClient" if converter is None else _implicit(converter)


def _converter(binding: Binding) -> Any:
    """Returns the SDK's converter of a binding type; `None` if the worker uses its generic binding."""
    return get_binding_registry().get(binding.type)  # type: ignore[no-untyped-call]  # the SDK's


def _implicit(converter: Any) -> bool:
    """Returns True if the converter accepts a return value without an output binding. A converter for outputs only does
    not.
    """
    return bool(getattr(converter, "has_implicit_output", bool)())


def _is_generic(hint: Any) -> bool:
    """Returns True if the worker takes `hint` as generic: `typing.List[x]`, but not `list[x]` and not a union."""
    if isinstance(hint, types.GenericAlias):
        return False
    return typing.get_origin(hint) not in (None, typing.Union, types.UnionType, tuple)


def _type_name(hint: Any) -> str:
    return hint.__name__ if isinstance(hint, type) else str(hint)
