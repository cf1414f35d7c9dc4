"""SQL filters and actions of subscription rules."""

from __future__ import annotations

import contextlib
import re
import uuid
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from servicebus_emulator.amqp.encoder import encode_described
from servicebus_emulator.amqp.message import APPLICATION_PROPERTIES, AmqpMessage
from servicebus_emulator.broker.broker import Broker
from servicebus_emulator.broker.descriptions import (
    QueueDescription,
    RuleDescription,
    SubscriptionDescription,
    TopicDescription,
)
from servicebus_emulator.broker.queue import REASON
from servicebus_emulator.broker.sql import SqlAction, SqlFilter
from servicebus_emulator.broker.sql_tokens import InvalidExpression
from servicebus_emulator.broker.sql_values import FilterError, like
from tests.servicebus_emulator.fakes import StillClock, Text, text_of

MESSAGE = Text(
    "x",
    message_id="m1",
    properties={
        "n": 7,
        "f": 2.5,
        "s": "abc",
        "percent": "50%",
        "yes": True,
        "no": False,
        "Mixed Case": 1,
        "id": uuid.UUID(int=1),
        "color": "it's",
    },
    system={"Label": "urgent", "To": None},
)

TRUE = [
    "n = 7",
    "N = 7 AND user.n = 7",
    "n <> 8 AND n != 8 AND n > 6 AND n >= 7 AND n < 8 AND n <= 7",
    "n = 7.0",
    "s = 'abc' AND s < 'abd'",
    "color = 'it''s'",
    '[Mixed Case] = 1 AND "mixed case" = 1',
    "sys.Label = 'urgent' AND sys.MESSAGEID = 'm1'",
    "yes AND NOT no",
    "NOT NOT yes",
    "no = FALSE AND yes = TRUE",
    "no OR n = 7 AND yes",
    "(no OR n = 7) AND yes",
    "NOT (n = 8)",
    "n IN (1, 7, 9)",
    "n NOT IN (1, 2)",
    "s LIKE 'a%' AND s LIKE '_b_' AND s LIKE 'abc'",
    "s NOT LIKE 'b%'",
    "percent LIKE '%!%' ESCAPE '!'",
    "missing IS NULL AND n IS NOT NULL",
    "EXISTS(n) AND NOT EXISTS(missing)",
    "sys.To IS NULL",
    "n + 1 = 8 AND n - 1 = 6 AND n * 2 = 14 AND n / 2 = 3 AND n % 4 = 3",
    "-n / 2 = -3 AND -n % 4 = -3",
    "f / 2 = 1.25",
    "1 + 2 * 3 = 7 AND (1 + 2) * 3 = 9 AND - - 1 = 1",
    "s + 'd' = 'abcd'",
    "1.5e1 = 15 AND .5 = 0.5",
    "property('n') = 7 AND p('s') = 'abc'",
    "newid() <> newid()",
    "id = '00000000-0000-0000-0000-000000000001'",
    "missing = 1 OR n = 7",
    "1=1",
]
NOT_TRUE = [
    "n = 8",
    "missing = 1",
    "missing <> 1",
    "NOT (missing = 1)",
    "missing = NULL",
    "missing IN (1, 2)",
    "missing NOT IN (1, 2)",
    "n NOT IN (1, missing)",
    "missing LIKE '%'",
    "missing + 1 = 1",
    "s = 7",
    "s <> 7",
    "yes = 1",
    "yes > no AND FALSE",
    "s LIKE 'A%'",
    "s LIKE 'ab'",
    "percent LIKE '5!%' ESCAPE '!'",
    "1=0",
]


@pytest.mark.parametrize("expression", TRUE)
def test_selected(expression: str) -> None:
    """The condition holds for the message."""
    assert SqlFilter(expression).matches(MESSAGE)


@pytest.mark.parametrize("expression", NOT_TRUE)
def test_not_selected(expression: str) -> None:
    """The condition is false or unknown for the message."""
    assert not SqlFilter(expression).matches(MESSAGE)


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("n = ", "a value expected at character 4"),
        ("n == 7", "a value expected"),
        ("(n = 7", r"\) expected"),
        ("n = 7 7", "a end expected|end expected"),
        ("n = 'open", "Unexpected"),
        ("sys.Nonsense = 1", "no system property 'Nonsense'"),
        ("evil(1) = 1", "function 'evil'"),
        ("n NOT 7", "IN or LIKE"),
        ("n = @missing", "@missing has no value"),
        ("s LIKE 'a' ESCAPE 'ab'", "one character"),
        ("(" * 60 + "n" + ")" * 60, "nested too deeply"),
        ("n = 1 OR " * 200 + "n = 1", "longer than 1024"),
    ],
)
def test_wrong_expressions_are_refused_where_they_are_wrong(expression: str, message: str) -> None:
    """An invalid expression is refused when the rule is made, with the place of the error."""
    with pytest.raises(InvalidExpression, match=message):
        SqlFilter(expression)


@settings(deadline=None)
@given(st.text("ab%_!\n", max_size=12), st.text("ab%_\n", max_size=12))
def test_like_agrees_with_a_regular_expression(pattern: str, text: str) -> None:
    """Any pattern matches the texts that its translation to a regular expression matches."""
    parts, characters = [], iter(pattern)
    for character in characters:
        if character == "!":
            parts.append(re.escape(next(characters, "!")))
        else:
            parts.append({"%": ".*", "_": "."}.get(character) or re.escape(character))
    expected = re.fullmatch("".join(parts), text, re.DOTALL) is not None
    assert like(text, pattern, "!") is expected


def test_like_takes_no_time_to_fail() -> None:
    """A pattern for which a backtracking matcher needs exponential time fails at once."""
    assert like("a" * 5000, "%a" * 20 + "b", None) is False


def test_parameters() -> None:
    assert SqlFilter("n = @Wanted", {"@wanted": 7}).matches(MESSAGE)


@pytest.mark.parametrize(
    "expression", ["s + 1 = 2", "n / 0 = 1", "n LIKE 'a'", "s AND yes", "s * 2 = 4", "1e300 * 1e300 % 2 = 0"]
)
def test_what_cannot_be_computed_fails(expression: str) -> None:
    """Operators that do not fit their values fail on the message, not when the rule is made."""
    with pytest.raises(FilterError):
        SqlFilter(expression).matches(MESSAGE)


@settings(deadline=None)
@given(st.text(alphabet="ns17 .'()=<>!+-*/%,[]\"@ANDORTLIKEXISU;", max_size=60))
def test_any_text_is_a_filter_or_refused(text: str) -> None:
    """No text raises another exception than the two errors."""
    with contextlib.suppress(InvalidExpression, FilterError):
        SqlFilter(text).matches(MESSAGE)


@pytest.mark.parametrize(
    ("expression", "changed"),
    [
        ("SET n = n + 1; SET n = n * 2", {"n": 16}),
        ("SET New = 'x' ; REMOVE s;", {"New": "x", "s": None}),
        ("set N = 1", {"n": 1}),
        ("SET sys.Label = 'calm'; SET l = sys.MessageId", {"sys.Label": "calm", "l": "m1"}),
    ],
)
def test_actions(expression: str, changed: dict[str, Any]) -> None:
    """Statements are executed in order on a copy."""
    result = SqlAction(expression).apply(MESSAGE)
    assert isinstance(result, Text)
    expected = dict(MESSAGE.properties)
    label = changed.pop("sys.Label", "urgent")
    expected.update(changed)
    assert dict(result.properties) == {name: value for name, value in expected.items() if value is not None}
    assert result.system["Label"] == label
    assert MESSAGE.properties["n"] == 7


@pytest.mark.parametrize(
    "expression", ["", "n = 1", "SET n", "REMOVE sys.Label", "SET sys.TimeToLive = 1", "SET a=1 SET b=2"]
)
def test_wrong_actions_are_refused(expression: str) -> None:
    """An invalid or forbidden action is refused when the rule is made."""
    with pytest.raises(InvalidExpression):
        SqlAction(expression)


@pytest.mark.parametrize("expression", ["SET n = 9223372036854775807 + 1", "SET sys.ContentType = 'ä'"])
def test_values_that_fit_into_no_message_fail(expression: str) -> None:
    """An action whose result cannot be encoded fails on the message, like a filter that cannot be computed."""
    message = AmqpMessage.parse(encode_described(APPLICATION_PROPERTIES, {"n": 1}))
    with pytest.raises(FilterError, match="does not fit"):
        SqlAction(expression).apply(message)


def test_rules_of_a_subscription() -> None:
    """Rules without action make one copy together, a rule with one makes its own, a failing rule a dead letter."""
    broker = Broker(StillClock())
    broker.add_topic(TopicDescription("t"))
    rules = (
        RuleDescription("a", SqlFilter("n > 1")),
        RuleDescription("b", SqlFilter("n > 2")),
        RuleDescription("c", SqlFilter("n > 2"), SqlAction("SET n = 0")),
        RuleDescription("d", SqlFilter("n / z = 1")),
    )
    queue = broker.add_subscription("t", SubscriptionDescription(QueueDescription("s"), rules)).queue
    topic = broker.destination("T")
    for number in (1, 2, 3):
        topic.send(Text(f"{number}", properties={"n": number}))
    topic.send(Text("broken", properties={"n": 1, "z": 0}))
    assert [
        (text_of(m), m.content.application_properties()["n"], m.enqueued_sequence_number) for m in queue.peek(0, 9)
    ] == [
        ("2", 2, 2),
        ("3", 3, 3),
        ("3", 0, 3),
    ]
    assert queue.dead_letters is not None
    [dead] = queue.dead_letters.peek(0, 9)
    assert (text_of(dead), dead.content.application_properties()[REASON]) == ("broken", "FilterEvaluationException")
