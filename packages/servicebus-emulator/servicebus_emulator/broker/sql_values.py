"""SQL operators on values: three-valued logic, and comparisons with the conversions of C#.

`None` is "unknown", which is a missing property or null. Values that cannot be compared are unknown too. A value that
cannot be computed raises FilterError. By default, the message is then dead-lettered, as in Azure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from servicebus_emulator.broker.errors import BusError


class FilterError(BusError):
    """The rule failed on this message."""


def negate(value: bool | None) -> bool | None:
    return None if value is None else not value


def both(left: bool | None, right: bool | None) -> bool | None:
    if left is False or right is False:
        return False
    return None if left is None or right is None else True


def either(left: bool | None, right: bool | None) -> bool | None:
    if left is True or right is True:
        return True
    return None if left is None or right is None else False


def as_truth(value: Any) -> bool | None:
    """Returns a boolean or unknown unchanged. Raises FilterError for any other value."""
    if value is None or isinstance(value, bool):
        return value
    raise FilterError(f"A condition expected, not {value!r}.")


_ORDER: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": lambda left, right: left == right,
    "<>": lambda left, right: left != right,
    "!=": lambda left, right: left != right,
    "<": lambda left, right: left < right,
    "<=": lambda left, right: left <= right,
    ">": lambda left, right: left > right,
    ">=": lambda left, right: left >= right,
}


def compare(operator: str, left: Any, right: Any) -> bool | None:
    """Compares values of one kind. Values of different kinds are unknown, except a UUID and the text of a UUID."""
    if left is None or right is None:
        return None
    if _kind(left) != _kind(right):
        # A UUID equals its text, as the SDKs show it.
        left, right = str(left), str(right)
        if {_kind(left), _kind(right)} != {"text"} or not _is_id(left, right):
            return None
    try:
        return bool(_ORDER[operator](left, right))
    except TypeError:
        return None


def _is_id(left: str, right: str) -> bool:
    return all(_UUID.fullmatch(text) is not None for text in (left, right))


_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "truth"
    if isinstance(value, int | float):
        return "number"
    return "text" if isinstance(value, str) else type(value).__name__


def compute(operator: str, left: Any, right: Any) -> Any:
    """Computes `left operator right`. `+` joins texts. Whole numbers divide to whole numbers, as in C#."""
    if left is None or right is None:
        return None
    if operator == "+" and isinstance(left, str) and isinstance(right, str):
        return str(left) + str(right)
    if _kind(left) != "number" or _kind(right) != "number":
        raise FilterError(f"'{operator}' cannot be applied to {left!r} and {right!r}.")
    try:
        return _ARITHMETIC[operator](left, right)
    except ZeroDivisionError as error:
        raise FilterError("Division by zero.") from error
    except OverflowError as error:
        raise FilterError(f"'{operator}' gives a number too large.") from error


def _divide(left: Any, right: Any) -> Any:
    if isinstance(left, int) and isinstance(right, int):
        return abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
    return left / right


def _remainder(left: Any, right: Any) -> Any:
    return left - right * int(_divide(left, right))


_ARITHMETIC: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": lambda left, right: left + right,
    "-": lambda left, right: left - right,
    "*": lambda left, right: left * right,
    "/": _divide,
    "%": _remainder,
}


def minus(value: Any) -> Any:
    return compute("-", 0, value)


def like(value: Any, pattern: Any, escape: str | None) -> bool | None:
    """Matches a text. `%` matches any text, and `_` matches one character. Case matters."""
    if value is None or pattern is None:
        return None
    if not isinstance(value, str) or not isinstance(pattern, str):
        raise FilterError("LIKE compares texts.")
    return _fits(value, _tokens(str(pattern), escape))


@lru_cache(maxsize=256)
def _tokens(pattern: str, escape: str | None) -> tuple[str, ...]:
    """Returns the pattern's characters: "" stands for any text, "any" for any one character."""
    tokens = []
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            tokens.append(next(characters, character))
        else:
            tokens.append({"%": "", "_": "any"}.get(character, character))
    return tuple(tokens)


def _fits(text: str, tokens: tuple[str, ...]) -> bool:
    """Matches without recursion or backtracking of a regular expression: only the last `%` is extended."""
    at = token = stretched_at = 0
    last_percent = -1
    while at < len(text):
        if token < len(tokens) and tokens[token] == "":
            last_percent, stretched_at = token, at
            token += 1
        elif token < len(tokens) and tokens[token] in ("any", text[at]):
            at += 1
            token += 1
        elif last_percent >= 0:
            stretched_at += 1
            at, token = stretched_at, last_percent + 1
        else:
            return False
    return all(rest == "" for rest in tokens[token:])
