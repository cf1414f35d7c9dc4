"""Parses, limits, validates and executes GraphQL documents with graphql-core (R83).

The app imports this module at the first request that needs it, since graphql-core has 150 modules.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from inspect import isawaitable
from typing import Any

from graphql import (
    DocumentNode,
    ExecutionResult,
    FieldNode,
    FragmentDefinitionNode,
    FragmentSpreadNode,
    GraphQLError,
    GraphQLSchema,
    InlineFragmentNode,
    OperationDefinitionNode,
    OperationType,
    SelectionSetNode,
    build_schema,
    execute,
    get_operation_ast,
    parse,
    subscribe,
    validate,
)

from shared.apidocs.problem_codes import ProblemCode
from shared.errors import Transient
from shared.refusals import MAX_REQUEST_ERROR, MAX_REQUEST_ERRORS
from triggers.http.problems import RequestError, problem_body

#: maximum nesting of fields
MAX_DEPTH = 6
#: maximum fields and fragments, counting repetitions
MAX_FIELDS = 200
#: maximum repetitions of one field name, under any alias: a response repeats its value each time
MAX_SAME = 20
#: maximum root fields, each of which is a request to the stores
MAX_READS = 10
#: maximum pages of the feed among them: each may read 1,000 events without a match
MAX_PAGES_OF_EVENTS = 2
#: maximum tokens of a document: names, punctuators, values, comments
MAX_TOKENS = 2_000

JsonObject = dict[str, Any]
Resolver = Callable[..., Awaitable[Any]]
Source = Callable[..., Awaitable[AsyncIterator[Any]]]


@dataclass(frozen=True)
class Operation:
    """One operation of a document, or its error."""

    schema: GraphQLSchema
    document: DocumentNode | None
    name: str | None
    errors: tuple[GraphQLError, ...] = ()

    @property
    def subscribes(self) -> bool:
        found = get_operation_ast(self.document, self.name) if self.document else None
        return found is not None and found.operation is OperationType.SUBSCRIPTION


def read(schema_text: str, query: str, name: str | None) -> Operation:
    """Parses a document. Raises RequestError (400) if the document exceeds a limit. Other errors are in the returned
    operation.
    """
    schema = _schema(schema_text)
    try:
        document = parse(query, max_tokens=MAX_TOKENS)
        _bound(document)
        errors = validate(schema, document, max_errors=MAX_REQUEST_ERRORS)
    except GraphQLError as wrong:
        if "nested too deeply" in wrong.message:
            raise _too_complex("is too deep") from None
        if f"more than {MAX_TOKENS} tokens" in wrong.message:
            raise _too_complex("is too long") from None
        return Operation(schema, None, name, (wrong,))
    return Operation(schema, None if errors else document, name, tuple(map(_of_the_document, errors)))


def _of_the_document(error: GraphQLError) -> GraphQLError:
    """Replaces an internal error of graphql-core by its cause, a number with thousands of digits, which Python refuses.
    Returns any other error unchanged.
    """
    return GraphQLError("a number has too many digits", error.nodes) if error.original_error is not None else error


@cache
def _schema(text: str) -> GraphQLSchema:
    return build_schema(text)


async def answer(
    operation: Operation, resolvers: Mapping[str, Resolver], variables: JsonObject, correlation_id: str
) -> JsonObject:
    """Returns the result of the operation, with `data` and `errors` (GraphQL 7.1). A mutation is an error, since the
    schema has no mutations.
    """
    if operation.document is None:
        return _formatted(None, operation.errors, correlation_id)
    result = execute(
        operation.schema,
        operation.document,
        root_value=resolvers,
        variable_values=variables,
        operation_name=operation.name,
    )
    found = await result if isawaitable(result) else result
    assert isinstance(found, ExecutionResult)
    return _formatted(found.data, found.errors or (), correlation_id)


async def messages(
    operation: Operation, sources: Mapping[str, Source], variables: JsonObject, correlation_id: str
) -> tuple[list[JsonObject], bool]:
    """Returns the result for each message of the source, and True if more messages can follow. No message follows a
    refused source.

    Raises Transient.
    """
    assert operation.document is not None
    result = subscribe(
        operation.schema,
        operation.document,
        root_value=sources,
        variable_values=variables,
        operation_name=operation.name,
    )
    found = await result if isawaitable(result) else result
    if isinstance(found, ExecutionResult):
        for each in found.errors or ():
            if isinstance(each.original_error, Transient):
                raise each.original_error
        return [_formatted(found.data, found.errors or (), correlation_id)], False
    return [_formatted(each.data, each.errors or (), correlation_id) async for each in found], True


def _formatted(data: JsonObject | None, errors: Iterable[GraphQLError], correlation_id: str) -> JsonObject:
    found = [_error(each, correlation_id) for each in errors]
    # nothing was executed, so `data` must be absent
    body = {} if data is None and not any("path" in each for each in found) else {"data": data}
    return body | ({"errors": found} if found else {})


def _error(error: GraphQLError, correlation_id: str) -> JsonObject:
    """Formats an error with the problem code that other routes use for it."""
    cause = error.original_error
    if cause is None or isinstance(cause, GraphQLError):
        # the message may repeat the document
        message, extensions = error.message[:MAX_REQUEST_ERROR], {"code": str(ProblemCode.QUERY_INVALID)}
    else:
        assert isinstance(cause, Exception)
        problem = problem_body(cause, correlation_id)
        message = problem["detail"]
        extensions = {name: each for name, each in problem.items() if name not in ("type", "title", "detail")}
    formatted: JsonObject = {"message": message, "extensions": extensions}
    if error.locations:
        formatted["locations"] = [{"line": each.line, "column": each.column} for each in error.locations]
    if error.path:
        formatted["path"] = list(error.path)
    return formatted


def _too_complex(what: str) -> RequestError:
    bounds = (
        f"maximum {MAX_TOKENS} tokens, {MAX_DEPTH} fields deep, {MAX_FIELDS} fields and fragments, {MAX_SAME} fields "
        f"of one name or alias and {MAX_READS} fields at the root, {MAX_PAGES_OF_EVENTS} of them `events`"
    )
    return RequestError(ProblemCode.QUERY_TOO_COMPLEX, f"the document {what}: {bounds}; shorten the document")


@dataclass
class _Size:
    """The size of a selection with its fragments expanded."""

    #: number of uses of each field, by name and not by alias; fragments are counted under ""
    names: Counter[str] = field(default_factory=Counter)
    #: number of uses of each alias: `validate` compares all fields with the same alias
    aliases: Counter[str] = field(default_factory=Counter)
    depth: int = 0
    #: number of uses of each root field
    outer: Counter[str] = field(default_factory=Counter)


def _bound(document: DocumentNode) -> None:
    """Checks the limits before any other work on the document. Raises RequestError (400).

    Each fragment is measured once, for any number of uses. `validate` refuses a circle of fragments.
    """
    if sum(_written(getattr(each, "selection_set", None)) for each in document.definitions) > MAX_FIELDS:
        raise _too_complex("is too long")
    fragments = {each.name.value: each for each in document.definitions if isinstance(each, FragmentDefinitionNode)}
    measured: dict[str, _Size] = {}
    for definition in document.definitions:
        # `validate` also checks a fragment that no operation uses
        if isinstance(definition, OperationDefinitionNode | FragmentDefinitionNode):
            size = _measure(definition.selection_set, fragments, measured)
            if size.depth > MAX_DEPTH:
                raise _too_complex("is too deep")
            if size.names.total() > MAX_FIELDS:
                raise _too_complex(f"selects more than {MAX_FIELDS} fields")
            if any(count > MAX_SAME for name, count in (*size.names.items(), *size.aliases.items()) if name):
                raise _too_complex(f"selects one field more than {MAX_SAME} times")
            if isinstance(definition, FragmentDefinitionNode):
                continue
            if size.outer.total() > MAX_READS:
                raise _too_complex(f"selects more than {MAX_READS} fields at the root")
            if size.outer["events"] > MAX_PAGES_OF_EVENTS:
                raise _too_complex(f"selects `events` more than {MAX_PAGES_OF_EVENTS} times")


def _written(selections: SelectionSetNode | None) -> int:
    count, left = 0, [selections]
    while left:
        if (found := left.pop()) is not None:
            count += len(found.selections)
            left += [getattr(each, "selection_set", None) for each in found.selections]
    return count


def _measure(
    selections: SelectionSetNode | None, fragments: Mapping[str, FragmentDefinitionNode], measured: dict[str, _Size]
) -> _Size:
    size = _Size()
    for each in selections.selections if selections is not None else ():
        if isinstance(each, FragmentSpreadNode):
            inside, is_field = _of_fragment(each.name.value, fragments, measured), False
        else:
            assert isinstance(each, FieldNode | InlineFragmentNode)
            inside, is_field = _measure(each.selection_set, fragments, measured), isinstance(each, FieldNode)
        size.names += inside.names
        size.names[each.name.value if isinstance(each, FieldNode) else ""] += 1
        size.aliases += inside.aliases
        if isinstance(each, FieldNode) and each.alias is not None:
            size.aliases[each.alias.value] += 1
        size.depth = max(size.depth, inside.depth + is_field)
        size.outer += Counter({each.name.value: 1}) if isinstance(each, FieldNode) else inside.outer
    return size


def _of_fragment(name: str, fragments: Mapping[str, FragmentDefinitionNode], measured: dict[str, _Size]) -> _Size:
    if name in fragments and name not in measured:
        # a fragment that leads back to itself finds this entry
        measured[name] = _Size()
        measured[name] = _measure(fragments[name].selection_set, fragments, measured)
    return measured.get(name, _Size())
