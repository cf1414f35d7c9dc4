"""Tokens of SQL filters and actions (Azure, "Subscription Rule SQL Filter Syntax")."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from servicebus_emulator.broker.errors import InvalidRequest

#: maximum characters of an expression, as in Azure
MAX_EXPRESSION_CHARS = 1024
KEYWORDS = frozenset(
    {"AND", "OR", "NOT", "IN", "IS", "NULL", "LIKE", "ESCAPE", "EXISTS", "TRUE", "FALSE", "SET", "REMOVE"}
)
_TOKEN = re.compile(
    r"""
    (?P<space>\s+)
  | (?P<float>(?:\d+\.\d*|\.\d+)(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+)
  | (?P<integer>\d+)
  | (?P<string>'(?:[^']|'')*')
  | (?P<quoted>\[(?:[^\]]|\]\])+\]|"(?:[^"]|"")+")
  | (?P<name>[^\W\d]\w*)
  | (?P<parameter>@\w+)
  | (?P<symbol><=|>=|<>|!=|[=<>+\-*/%(),.;])
    """,
    re.VERBOSE,
)


class InvalidExpression(InvalidRequest):
    """The SQL expression is invalid."""


@dataclass(frozen=True, slots=True)
class Token:
    """A token and its position in the text."""

    #: `keyword`, `name`, `value`, `parameter`, `symbol` or `end`
    kind: str
    value: Any
    position: int


def tokenize(text: str) -> list[Token]:
    """Returns all tokens and an `end`. Raises InvalidExpression for characters that start no token, or for a text of
    more than 1,024 characters.
    """
    if len(text) > MAX_EXPRESSION_CHARS:
        raise InvalidExpression(f"The expression is longer than {MAX_EXPRESSION_CHARS} characters.")
    tokens = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise InvalidExpression(f"Unexpected '{text[at]}' at character {at} of \"{text}\".")
        token = _token(match)
        if token is not None:
            tokens.append(token)
        at = match.end()
    return [*tokens, Token("end", "the end", at)]


def _token(match: re.Match[str]) -> Token | None:
    text, at = match[0], match.start()
    match match.lastgroup:
        case "space":
            return None
        case "float":
            return Token("value", float(text), at)
        case "integer":
            return Token("value", int(text), at)
        case "string":
            return Token("value", text[1:-1].replace("''", "'"), at)
        case "quoted":
            end = text[-1]
            return Token("name", text[1:-1].replace(end * 2, end), at)
        case "name" if text.upper() in KEYWORDS:
            return Token("keyword", text.upper(), at)
        case kind:
            return Token(str(kind), text, at)
