"""The management API without HTTP: requests that the SDKs do not send, and texts that they do not show."""

from __future__ import annotations

import re

import pytest

from servicebus_emulator.admin.rest_api import Request, RestApi
from servicebus_emulator.amqp.message import Request as Amqp
from servicebus_emulator.broker.broker import Broker
from servicebus_emulator.broker.descriptions import QueueDescription, SubscriptionDescription, TopicDescription
from servicebus_emulator.management_node import ManagementNode
from tests.servicebus_emulator.fakes import StillClock, Text

_SERVICE_BUS = "http://schemas.microsoft.com/netservices/2010/10/servicebus/connect"
_RULE = "t/subscriptions/s/rules"


@pytest.fixture
def broker() -> Broker:
    broker = Broker(StillClock())
    broker.add_queue(QueueDescription("q"))
    broker.add_topic(TopicDescription("t"))
    broker.add_subscription("t", SubscriptionDescription(QueueDescription("s")))
    return broker


@pytest.fixture
def api(broker: Broker) -> RestApi:
    return RestApi(broker, lambda: None)


def ask(api: RestApi, method: str, path: str, content: str = "", *, change: bool = False) -> tuple[int, str]:
    entry = f'<entry xmlns="http://www.w3.org/2005/Atom"><content>{content}</content></entry>'
    return api.handle(Request(method, path, {}, change, entry.encode(), "https://127.0.0.1:5300"))


def rule(text: str, kind: str) -> str:
    """Returns the description of a rule whose correlation filter has one property."""
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


def queue(**properties: object) -> str:
    texts = "".join(f"<{name}>{value}</{name}>" for name, value in properties.items())
    return f'<QueueDescription xmlns="{_SERVICE_BUS}">{texts}</QueueDescription>'


@pytest.mark.parametrize(
    ("size_mb", "standard", "premium"),
    [(7, 400, 400), (0, 400, 400), (1024, 201, 201), (5120, 201, 201), (6144, 400, 400), (81920, 400, 201)],
)
def test_the_sizes_of_an_entity(broker: Broker, size_mb: int, standard: int, premium: int) -> None:
    """Whole gigabytes, those of the tier. The text is Azure's (MassTransit, issue 5394)."""
    for is_premium, expected in ((False, standard), (True, premium)):
        api = RestApi(broker, lambda: None, is_premium=is_premium)
        status, xml = ask(api, "PUT", f"sized-{is_premium}", queue(MaxSizeInMegabytes=size_mb))
        assert status == expected
        if expected == 400:
            assert f"The specified value {size_mb} is invalid. The property MaxSizeInMegabytes, must be one of" in xml
    api = RestApi(broker, lambda: None)
    assert ask(api, "PUT", "q", queue(MaxSizeInMegabytes=7), change=True)[0] == 400
    assert broker.queue("q").description.max_size_bytes == 1024**3


def test_a_size_from_the_command_line_is_kept(broker: Broker) -> None:
    """An entity that is limited to fewer bytes than a megabyte can be written back as it was read."""
    broker.add_queue(QueueDescription("limited", max_size_bytes=100_000))
    api = RestApi(broker, lambda: None)
    assert "<MaxSizeInMegabytes>0<" in ask(api, "GET", "limited")[1]
    assert ask(api, "PUT", "limited", queue(MaxSizeInMegabytes=0, MaxDeliveryCount=3), change=True)[0] == 200
    description = broker.queue("limited").description
    assert (description.max_size_bytes, description.max_delivery_count) == (100_000, 3)


_T, _S = "sbemulatorns:Topic:t", "sbemulatorns:Topic:t|s"


@pytest.mark.parametrize(
    ("method", "path", "change", "status", "text"),
    [
        ("PUT", "q", False, 409, "SubCode=40900. Conflict."),
        ("PUT", "t", False, 409, "SubCode=40900. Conflict."),
        ("PUT", "t/subscriptions/s", False, 409, f"The messaging entity '{_S}' already exists. To know more"),
        ("PUT", f"{_RULE}/$Default", False, 409, f"The messaging entity '{_S}|$Default' already exists. To know more"),
        ("PUT", "missing", True, 404, "The messaging entity 'missing' could not be found."),
        ("PUT", "t/subscriptions/missing", True, 404, f"Entity '{_T}|missing' was not found."),
        ("PUT", f"{_RULE}/missing", True, 404, f"Entity '{_S}|missing' was not found."),
        ("DELETE", "missing", False, 404, "The messaging entity 'missing' could not be found."),
        ("DELETE", "t/subscriptions/missing", False, 404, f"Entity '{_T}|missing' was not found."),
        ("DELETE", f"{_RULE}/missing", False, 404, f"Entity '{_S}|missing' was not found."),
        ("GET", "t/subscriptions/missing", False, 404, f"Entity '{_T}|missing' was not found."),
        ("GET", f"{_RULE}/missing", False, 404, f"Entity '{_S}|missing' was not found."),
    ],
)
def test_errors_begin_like_azures(api: RestApi, method: str, path: str, change: bool, status: int, text: str) -> None:
    """The texts that Azure's begin with (azure-sdk-for-js, `atomManagement.spec.ts`; module-ballerinax-asb's tests)."""
    got, xml = ask(api, method, path, rule("1", "int") if "/rules/" in path else queue(), change=change)
    assert (got, f"<Detail>{text}" in xml) == (status, True), xml


@pytest.mark.parametrize("path", ["missing", "missing/deeper"])
def test_a_missing_queue_is_an_empty_feed(api: RestApi, path: str) -> None:
    """GET has the status 200, and the SDKs find no entry (ballerina: "Status Code:200 ... Topic does not exist")."""
    status, xml = ask(api, "GET", path)
    assert (status, "<feed" in xml, "<entry" in xml) == (200, True, False)


def test_rules_are_listed_by_name(api: RestApi, broker: Broker) -> None:
    """Over HTTP and over AMQP, in pages too (azure-sdk-for-js, `ruleManager.spec.ts`, "list rules by page")."""
    for name in ("sqlRule", "Xyz", "correlationRule"):
        assert ask(api, "PUT", f"{_RULE}/{name}", rule("1", "int"))[0] == 201
    expected = ["$Default", "correlationRule", "sqlRule", "Xyz"]
    assert re.findall("<Name>(.*?)</Name>", ask(api, "GET", _RULE)[1]) == expected
    node = ManagementNode(broker, "t/Subscriptions/s", 1000)
    listed = []
    for skip in range(4):
        operation = {"operation": "com.microsoft:enumerate-rules"}
        [item] = node.handle(Amqp("id", None, operation, {"skip": skip, "top": 1})).body["rules"]
        listed.append(item["rule-description"].value[2])
    assert listed == expected


def test_a_doubled_rule_over_amqp(broker: Broker) -> None:
    """It is refused with Azure's text, which names the rule last (`ruleManager.spec.ts`, "same name twice")."""
    body = {"rule-name": "$default", "rule-description": {"true-filter": {}}}
    request = Amqp("id", None, {"operation": "com.microsoft:add-rule"}, body)
    reply = ManagementNode(broker, "t/Subscriptions/s", 1000).handle(request)
    assert (reply.status, reply.condition) == (409, "com.microsoft:entity-already-exists")
    assert reply.description.startswith(f"The messaging entity '{_S}|$default' already exists.")


@pytest.mark.parametrize("target", ["q", "sb://elsewhere.servicebus.windows.net/q", "https://127.0.0.1:5300/q/"])
def test_forwarding_comes_back_as_endpoint_and_name(api: RestApi, broker: Broker, target: str) -> None:
    """For any form that the client sent, and also when it writes them back (azure-sdk-for-js,
    `atomManagement.spec.ts`).
    """
    endpoint = "<ForwardTo>sb://127.0.0.1:5300/q</ForwardTo>"
    assert endpoint in ask(api, "PUT", "first", queue(ForwardTo=target))[1]
    assert endpoint in ask(api, "GET", "first")[1]
    assert endpoint in ask(api, "PUT", "first", queue(ForwardTo="sb://127.0.0.1:5300/q"), change=True)[1]
    broker.destination("first").send(Text("x"))
    assert broker.queue("q").counts()["active"] == 1
    assert "<ForwardTo>" not in ask(api, "PUT", "first", queue(ForwardTo=""), change=True)[1]
