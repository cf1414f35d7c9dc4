"""The management API without HTTP: requests that the SDKs do not send, and texts that they do not show."""

from __future__ import annotations

import pytest

from servicebus_emulator.admin.rest_api import Request, RestApi
from servicebus_emulator.broker.broker import Broker
from servicebus_emulator.broker.descriptions import QueueDescription, SubscriptionDescription, TopicDescription
from tests.servicebus_emulator.fakes import StillClock

_SERVICE_BUS = "http://schemas.microsoft.com/netservices/2010/10/servicebus/connect"
_RULE = "t/subscriptions/s/rules"


@pytest.fixture
def api() -> RestApi:
    broker = Broker(StillClock())
    broker.add_queue(QueueDescription("q"))
    broker.add_topic(TopicDescription("t"))
    broker.add_subscription("t", SubscriptionDescription(QueueDescription("s")))
    return RestApi(broker, lambda: None)


def ask(api: RestApi, method: str, path: str, content: str = "", *, change: bool = False) -> tuple[int, str]:
    entry = f'<entry xmlns="http://www.w3.org/2005/Atom"><content>{content}</content></entry>'
    return api.handle(Request(method, path, {}, change, entry.encode(), "https://127.0.0.1:5300"))


def rule(text: str, kind: str) -> str:
    """The description of a rule whose correlation filter has one property."""
    return (
        f'<RuleDescription xmlns="{_SERVICE_BUS}" xmlns:i="http://www.w3.org/2001/XMLSchema-instance">'
        '<Filter i:type="CorrelationFilter"><Properties><KeyValueOfstringanyType><Key>d</Key>'
        f'<Value xmlns:d6p1="http://www.w3.org/2001/XMLSchema" i:type="d6p1:{kind}">{text}</Value>'
        "</KeyValueOfstringanyType></Properties></Filter></RuleDescription>"
    )


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("dateTime", "never"),
        ("dateTime", "2020-13-01T00:00:00Z"),
        ("dateTime", "0000-01-01T00:00:00"),
        ("dateTime", ""),
        ("duration", "P1Y"),
        ("duration", "P999999999D"),
        ("int", "1.5"),
    ],
)
def test_a_value_that_is_not_of_its_type_is_refused(api: RestApi, kind: str, text: str) -> None:
    """A rule whose date is no date gets 400, and the list of rules can still be read."""
    status, xml = ask(api, "PUT", f"{_RULE}/bad", rule(text, kind))
    assert (status, f"is not of the type {kind}" in xml) == (400, True)
    status, xml = ask(api, "GET", _RULE)
    assert (status, xml.count("<RuleDescription")) == (200, 1)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("2020-07-05T11:12:13Z", "2020-07-05T11:12:13Z"),
        ("2020-07-05T11:12:13", "2020-07-05T11:12:13"),
        ("2020-07-05T11:12:13.5000000+02:00", "2020-07-05T09:12:13.500Z"),
        ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z"),
        ("9999-12-31T23:59:59.9999999Z", "9999-12-31T23:59:59.999Z"),
    ],
)
def test_dates_keep_their_time_zone(api: RestApi, text: str, written: str) -> None:
    """A date comes back in UTC, or without a time zone if it came so."""
    assert ask(api, "PUT", f"{_RULE}/r", rule(text, "dateTime"))[0] == 201
    assert f'i:type="d6p1:dateTime">{written}<' in ask(api, "GET", f"{_RULE}/r")[1]
