"""The OpenAPI entry of a route lists each refusal that the handler, or a function that it calls, can raise."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Callable, Iterator
from functools import cache
from types import FunctionType, ModuleType
from typing import Any

from shared.apidocs.operation import refusals_of
from shared.apidocs.problem_codes import ProblemCode
from shared.operations.jobs.related_jobs import dependencies_of
from shared.refusals import Refused
from triggers import registered
from triggers.http.routes import list_routes

ROUTES = list_routes(each for each in vars(registered).values() if isinstance(each, ModuleType))
_ONLY_CREATION, _RACE = "only a creation raises it", "the bulk operation is deleted at that moment"
#: refusals that a called function can raise, but not for this route
NEVER = {
    ("audit_anchors", "LIMIT_INVALID"): "the route has no such parameter",
    ("graphql", "LIMIT_INVALID"): "it is an error of one field",
    ("webhooks_default_secret", "HOOK_NOT_FOUND"): "the default webhook is created if it is missing",
    ("webhooks_rotate", "HOOK_KEY_GONE"): "a rotation uses the first configured key",
    **{(f"webhooks_{name}", "HOOK_LIMIT"): _ONLY_CREATION for name in ("change", "remove", "resume")},
    **{(name, "BULK_NOT_FOUND"): _RACE for name in ("bulk_start", "job_redrive", "admin_purge")},
}
Caught = tuple[type[BaseException], ...]


@cache
def functions(module: ModuleType) -> dict[int, ast.FunctionDef | ast.AsyncFunctionDef]:
    """Returns the functions of a module by the line of their code."""
    return dict(_functions(ast.parse(inspect.getsource(module)).body))


def _functions(nodes: list[ast.stmt]) -> Iterator[tuple[int, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield min([node.lineno, *(each.lineno for each in node.decorator_list)]), node
        yield from _functions(getattr(node, "body", []))


@cache
def uses(function: FunctionType) -> list[tuple[Any, Caught]]:
    """The functions, refusals and codes that a function names, each with the errors that are caught around it."""
    module = sys.modules[function.__module__]
    node = functions(module).get(function.__code__.co_firstlineno)
    return list(_uses(node.body, vars(module), ())) if node is not None else []


def _uses(nodes: list[Any], names: dict[str, Any], caught: Caught) -> Iterator[tuple[Any, Caught]]:
    for node in nodes:
        match node:
            case ast.Try():
                kinds = [_value(each, names) for handler in node.handlers for each in _types(handler)]
                here = tuple(each for each in kinds if inspect.isclass(each))
                yield from _uses(node.body, names, (*caught, *here))
                bodies = (*(each.body for each in node.handlers), node.orelse, node.finalbody)
                yield from _uses([each for body in bodies for each in body], names, caught)
            case ast.Name() | ast.Attribute() if (value := _value(node, names)) is not None:
                yield value, caught
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield from _uses(node.body, names, caught)
            case ast.AnnAssign():
                yield from _uses([each for each in [node.value] if each], names, caught)
            case ast.AST():
                yield from _uses([*ast.iter_child_nodes(node)], names, caught)


def _types(handler: ast.ExceptHandler) -> list[ast.expr]:
    return handler.type.elts if isinstance(handler.type, ast.Tuple) else [each for each in [handler.type] if each]


def _value(node: ast.AST, names: dict[str, Any]) -> Any:
    if isinstance(node, ast.Attribute):
        return getattr(_value(node.value, names), node.attr, None)
    return names.get(node.id) if isinstance(node, ast.Name) else None


def raised(handler: Callable[..., Any]) -> dict[str, str]:
    """The codes that the handler can raise, each with the functions that lead to it.

    Without codes that an instance of a class has, as `FilterInvalid`, and without methods of an object.
    """
    found: dict[str, str] = {}
    seen: set[tuple[Any, frozenset[type[BaseException]]]] = set()
    left: list[tuple[Any, Caught, str]] = [(handler, (), handler.__name__)]
    while left:
        function, around, path = left.pop()
        if (function, frozenset(around)) in seen:
            continue
        seen.add((function, frozenset(around)))
        for value, caught in uses(inspect.unwrap(function)):
            if isinstance(value, ProblemCode):
                found.setdefault(value.code, path)
            elif isinstance(value, FunctionType):
                left.append((value, (*around, *caught), f"{path} > {value.__name__}"))
            elif _has_code(value) and not issubclass(value, (*around, *caught)):
                found.setdefault(value.code, path)
    return found


def _has_code(value: Any) -> bool:
    is_refusal = inspect.isclass(value) and issubclass(value, Refused)
    return is_refusal and hasattr(value, "code") and "code" not in value.__init__.__code__.co_names


def test_a_route_lists_what_it_raises() -> None:
    """And each exception above is needed. The search finds the exceptions of an archived dependency."""
    raises = {route.function: raised(handler) for route, handler in ROUTES}
    assert raises["job_resume"]["ARCHIVE_GONE"].endswith("find_job > read_job > read_archived")
    assert "ARCHIVE_GONE" not in raised(dependencies_of), "it is caught there"
    listed = {route.function: {each.code for each in refusals_of(route)} for route, _ in ROUTES}
    missing = {
        (function, code): path
        for function, found in raises.items()
        for code, path in found.items()
        if code not in listed[function]
    }
    assert {each: path for each, path in missing.items() if each not in NEVER} == {}, "add them to `problems`"
    assert NEVER.keys() <= missing.keys()
