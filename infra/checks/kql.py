"""Reads the inputs and outputs of a Kusto query of this repository: one table, a pipe of operators.

Operators: https://learn.microsoft.com/kusto/query/tabular-operators. An operator that is not in `_OPERATORS` is
refused, so that no unread part counts as checked.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_TEXT = re.compile(r"'[^']*'")
_WORD = re.compile(r"[A-Za-z_]\w*")
_CALL = re.compile(r"[A-Za-z_]\w*(?=\s*\()")
_KEY = re.compile(r"(\w+)\['([^']+)'\]")
#: operators that keep the columns of their input
_KEEPING = frozenset({"where", "order", "top", "take", "sort"})
_OPERATORS = _KEEPING | {"extend", "project", "summarize"}
_KEYWORDS = frozenset({"and", "asc", "between", "by", "contains", "desc", "has", "in", "not", "or", "startswith"})
#: a literal, not a name: `5m`, `1d`
_SPAN = re.compile(r"\b\d+(?:\.\d+)?[a-z]*\b")


class UnreadableQuery(ValueError):
    """The query has a part that this module cannot read. The message has the part."""


@dataclass(frozen=True)
class Query:
    """The columns that a query reads of its table, and the columns of its result."""

    table: str
    #: columns of the table
    columns: frozenset[str]
    #: pairs of a column and a key in it, for example `Properties['jobType']`; also of columns that the query creates
    keys: frozenset[tuple[str, str]]
    #: values that `Name` is compared with
    names: frozenset[str]
    #: columns of the output; None means those of the table, and additional ones
    output: frozenset[str] | None


def read(text: str) -> Query:
    """Returns the columns of a query. Raises UnreadableQuery."""
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("//")]
    fixed = {match[1] for line in lines if (match := re.match(r"let (\w+) = .*;$", line))}
    first, *pipe = [part.strip() for part in " ".join(line for line in lines if not line.startswith("let ")).split("|")]
    if not _WORD.fullmatch(first):
        raise UnreadableQuery(f"{first!r} is not a table")
    used: set[str] = set()
    made: set[str] = set()
    output: frozenset[str] | None = None
    for part in pipe:
        operator, _, rest = part.partition(" ")
        if operator not in _OPERATORS:
            raise UnreadableQuery(f"{operator!r} is not a known operator")
        assignments = _assignments(rest) if operator not in _KEEPING else {"": rest}
        for expression in assignments.values():
            used |= _names(expression) - fixed - (made if output is None else set(output))
        if operator == "extend":
            made |= set(assignments)
            output = output | set(assignments) if output is not None else None
        elif operator not in _KEEPING:
            output = frozenset(assignments)
    names = re.findall(r"\bName (?:==|startswith) '([^']+)'", text)
    names += [name for group in re.findall(r"\bName in \(([^)]*)\)", text) for name in re.findall(r"'([^']+)'", group)]
    return Query(first, frozenset(used), frozenset(_KEY.findall(text)), frozenset(names), output)


def _assignments(text: str) -> dict[str, str]:
    """Returns column to expression for `A = sum(B), C by D, bin(E, 5m)`. A column without an expression is its own
    expression.
    """
    found = {}
    # `by` separates as a comma does
    for part in _split(re.sub(r"\s+by\s+", ", ", text)):
        name, equals, expression = part.partition(" = ")
        if not equals:
            expression = part
            inner = re.fullmatch(r"bin\((\w+), [^)]*\)", part)
            name = inner[1] if inner else part
        if not _WORD.fullmatch(name):
            raise UnreadableQuery(f"{part!r} has no name")
        found[name] = expression
    return found


def _split(text: str) -> list[str]:
    """Splits at the commas outside of brackets."""
    parts, depth, begun = [], 0, 0
    for place, letter in enumerate(text):
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and depth == 0:
            parts.append(text[begun:place].strip())
            begun = place + 1
    return [*parts, text[begun:].strip()]


def _names(expression: str) -> set[str]:
    """Returns the columns of an expression: its words without texts, functions, keywords and literals."""
    bare = _SPAN.sub(" ", _TEXT.sub("''", expression))
    return set(_WORD.findall(bare)) - set(_CALL.findall(bare)) - _KEYWORDS
