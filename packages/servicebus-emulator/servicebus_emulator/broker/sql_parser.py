"""Parses SQL conditions into functions of a message's properties, by this grammar.

condition  = and ("OR" and)*            and   = not ("AND" not)*
not        = "NOT" not | test
test       = sum [("=" | "<>" | "!=" | "<" | "<=" | ">" | ">=") sum | "IS" ["NOT"] "NULL" | ["NOT"] "IN" "(" ... ")"
             | ["NOT"] "LIKE" sum ["ESCAPE" text]] | "EXISTS" "(" property ")"
sum        = product (("+" | "-") product)*    product = sign (("*" | "/" | "%") sign)*
sign       = ("+" | "-") sign | atom
atom       = constant | property | parameter | function "(" ... ")" | "(" condition ")"
property   = [("sys" | "user") "."] name
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import Any

from servicebus_emulator.broker.sql_tokens import InvalidExpression, Token, tokenize
from servicebus_emulator.broker.sql_values import as_truth, both, compare, compute, either, like, minus, negate

#: maximum nested brackets of an expression
_MAX_DEPTH = 50
_COMPARISONS = frozenset({"=", "<>", "!=", "<", "<=", ">", ">="})
SYSTEM_PROPERTIES = {
    name.lower(): name
    for name in (
        *("MessageId", "CorrelationId", "To", "ReplyTo", "Label", "ContentType", "SessionId", "ReplyToSessionId"),
        *("PartitionKey", "TimeToLive", "ScheduledEnqueueTimeUtc"),
    )
}


class Properties:
    """A message's properties for expressions. Names ignore case, and sections are decoded at first use."""

    def __init__(self, system: Callable[[], Mapping[str, Any]], user: Callable[[], Mapping[str, Any]]) -> None:
        self._read_system, self._read_user = system, user
        self._system: Mapping[str, Any] | None = None
        self._user: dict[str, Any] | None = None

    def system(self, name: str) -> Any:
        if self._system is None:
            self._system = self._read_system()
        return self._system.get(name)

    def user(self, name: str) -> Any:
        if self._user is None:
            self._user = {key.lower(): value for key, value in self._read_user().items()}
        return self._user.get(name)

    def set_user(self, name: str, value: Any) -> None:
        """Sets a property for the following statements of an action."""
        self.user(name)
        assert self._user is not None
        self._user[name.lower()] = value


Expression = Callable[[Properties], Any]


class Parser:
    """A parser of one expression by the grammar of this module."""

    def __init__(self, text: str, parameters: Mapping[str, Any] | None = None) -> None:
        self._text = text
        self._tokens = tokenize(text)
        self._next = 0
        self._depth = 0
        self._parameters = {name.lstrip("@").lower(): value for name, value in (parameters or {}).items()}

    # Tokens

    @property
    def token(self) -> Token:
        return self._tokens[self._next]

    def advance(self) -> Token:
        token = self.token
        self._next += 1
        return token

    def take(self, kind: str, *values: str) -> Token | None:
        """Consumes and returns the next token if it has this kind and one of these values, else returns None."""
        token = self.token
        if token.kind == kind and (not values or token.value in values):
            return self.advance()
        return None

    def expect(self, kind: str, *values: str) -> Token:
        token = self.take(kind, *values)
        if token is None:
            raise self.error(" or ".join(values) or f"a {kind}")
        return token

    def error(self, expected: str) -> InvalidExpression:
        token = self.token
        return InvalidExpression(
            f"{expected} expected at character {token.position} of \"{self._text}\", not '{token.value}'."
        )

    # Conditions

    def whole_condition(self) -> Expression:
        """Parses the whole text as a condition."""
        condition = self.condition()
        self.expect("end")
        return condition

    def condition(self) -> Expression:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise InvalidExpression("The expression is nested too deeply.")
        left = self._and()
        while self.take("keyword", "OR"):
            left = _logic(either, left, self._and())
        self._depth -= 1
        return left

    def _and(self) -> Expression:
        left = self._not()
        while self.take("keyword", "AND"):
            left = _logic(both, left, self._not())
        return left

    def _not(self) -> Expression:
        negated = False
        while self.take("keyword", "NOT"):
            negated = not negated
        test = self._test()
        return (lambda row: negate(as_truth(test(row)))) if negated else test

    def _test(self) -> Expression:
        if self.take("keyword", "EXISTS"):
            self.expect("symbol", "(")
            read_property = self._property(self.expect("name"))
            self.expect("symbol", ")")
            return lambda row: read_property(row) is not None
        left = self.sum()
        if self.token.kind == "symbol" and self.token.value in _COMPARISONS:
            operator, right = self.advance().value, self.sum()
            return lambda row: compare(operator, left(row), right(row))
        if self.take("keyword", "IS"):
            expects_null = self.take("keyword", "NOT") is None
            self.expect("keyword", "NULL")
            return lambda row: (left(row) is None) is expects_null
        negated = self.take("keyword", "NOT") is not None
        if self.take("keyword", "IN"):
            return _negated(self._in(left), negated)
        if self.take("keyword", "LIKE"):
            return _negated(self._like(left), negated)
        if negated:
            raise self.error("IN or LIKE")
        return left

    def _in(self, left: Expression) -> Expression:
        self.expect("symbol", "(")
        choices = [self.sum()]
        while self.take("symbol", ","):
            choices.append(self.sum())
        self.expect("symbol", ")")

        def test(row: Properties) -> bool | None:
            result: bool | None = False
            for choice in choices:
                result = either(result, compare("=", left(row), choice(row)))
            return result

        return test

    def _like(self, left: Expression) -> Expression:
        pattern = self.sum()
        escape: str | None = None
        if self.take("keyword", "ESCAPE"):
            token = self.expect("value")
            if not isinstance(token.value, str) or len(token.value) != 1:
                raise InvalidExpression("ESCAPE takes one character.")
            escape = token.value
        return lambda row: like(left(row), pattern(row), escape)

    # Values

    def sum(self) -> Expression:
        left = self._product()
        while token := self.take("symbol", "+", "-"):
            left = _arithmetic(token.value, left, self._product())
        return left

    def _product(self) -> Expression:
        left = self._sign()
        while token := self.take("symbol", "*", "/", "%"):
            left = _arithmetic(token.value, left, self._sign())
        return left

    def _sign(self) -> Expression:
        negative = False
        while token := self.take("symbol", "+", "-"):
            negative ^= token.value == "-"
        atom = self._atom()
        return (lambda row: minus(atom(row))) if negative else atom

    def _atom(self) -> Expression:
        if self.take("symbol", "("):
            inner = self.condition()
            self.expect("symbol", ")")
            return inner
        if token := self.take("keyword", "TRUE", "FALSE", "NULL"):
            return _constant({"TRUE": True, "FALSE": False, "NULL": None}[token.value])
        if token := self.take("value"):
            return _constant(token.value)
        if token := self.take("parameter"):
            name = token.value[1:].lower()
            if name not in self._parameters:
                raise InvalidExpression(f"The parameter {token.value} has no value.")
            return _constant(self._parameters[name])
        if token := self.take("name"):
            if self.take("symbol", "("):
                return self._function(token)
            return self._property(token)
        raise self.error("a value")

    def _function(self, token: Token) -> Expression:
        name = token.value.lower()
        if name == "newid":
            self.expect("symbol", ")")
            return lambda row: uuid.uuid4()
        if name in ("p", "property"):
            inner = self.expect("value")
            self.expect("symbol", ")")
            key = str(inner.value).lower()
            return lambda row: row.user(key)
        raise InvalidExpression(f"The function '{token.value}' is unknown.")

    def _property(self, token: Token) -> Expression:
        scope, name = self.property_name(token)
        if scope == "sys":
            return lambda row: row.system(name)
        key = name.lower()
        return lambda row: row.user(key)

    def property_name(self, token: Token) -> tuple[str, str]:
        """Returns scope (`sys` or `user`) and name. Raises InvalidExpression for an unknown system property."""
        if token.value.lower() not in ("sys", "user") or not self.take("symbol", "."):
            return "user", token.value
        name = self.expect("name").value
        if token.value.lower() == "user":
            return "user", name
        if name.lower() not in SYSTEM_PROPERTIES:
            raise InvalidExpression(f"There is no system property '{name}' (or filters cannot use it).")
        return "sys", SYSTEM_PROPERTIES[name.lower()]


def _constant(value: Any) -> Expression:
    return lambda row: value


def _logic(
    operator: Callable[[bool | None, bool | None], bool | None], left: Expression, right: Expression
) -> Expression:
    return lambda row: operator(as_truth(left(row)), as_truth(right(row)))


def _negated(test: Expression, negated: bool) -> Expression:
    return (lambda row: negate(test(row))) if negated else test


def _arithmetic(operator: str, left: Expression, right: Expression) -> Expression:
    return lambda row: compute(operator, left(row), right(row))
