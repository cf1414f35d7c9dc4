"""Microsoft's ServiceBusAdministrationClient on the admin port, over HTTPS, which it requires."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from azure.core.exceptions import HttpResponseError, ResourceExistsError, ResourceNotFoundError
from azure.servicebus import ServiceBusClient, ServiceBusMessage
from azure.servicebus.exceptions import MessagingEntityNotFoundError, ServiceBusError
from azure.servicebus.management import (
    CorrelationRuleFilter,
    EntityStatus,
    FalseRuleFilter,
    ServiceBusAdministrationClient,
    SqlRuleAction,
    SqlRuleFilter,
    TrueRuleFilter,
)

from tests.servicebus_emulator.process import Bus, start_bus


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("administration")


@pytest.fixture(scope="module")
def tls_bus(data: Path, config_path: Path) -> Iterator[Bus]:
    bus = start_bus("--config", config_path, "--tls", "--data", data)
    yield bus
    assert bus.stop() == 0


def administration(bus: Bus, data: Path) -> ServiceBusAdministrationClient:
    text = bus.connection_string.replace(str(bus.port), str(bus.admin_port))
    return ServiceBusAdministrationClient.from_connection_string(
        text, connection_verify=str(data / "bus-certificate.pem"), retry_total=0
    )


@pytest.fixture(scope="module")
def admin(tls_bus: Bus, data: Path) -> Iterator[ServiceBusAdministrationClient]:
    with administration(tls_bus, data) as client:
        yield client


def test_queues(admin: ServiceBusAdministrationClient, tls_bus: Bus) -> None:
    """A queue is created with its properties, read, changed, listed and deleted, and works in between."""
    created = admin.create_queue(
        "made",
        lock_duration=timedelta(seconds=30),
        max_delivery_count=3,
        default_message_time_to_live=timedelta(hours=2),
        dead_lettering_on_message_expiration=True,
        requires_duplicate_detection=True,
        duplicate_detection_history_time_window=timedelta(minutes=5),
        max_size_in_megabytes=2048,
        user_metadata="mine",
        forward_dead_lettered_messages_to="plain-0",
    )
    assert (created.name, created.lock_duration, created.max_delivery_count) == ("made", timedelta(seconds=30), 3)
    queue = admin.get_queue("made")
    assert (queue.default_message_time_to_live, queue.dead_lettering_on_message_expiration) == (
        timedelta(hours=2),
        True,
    )
    assert (queue.requires_duplicate_detection, queue.max_size_in_megabytes) == (True, 2048)
    assert queue.user_metadata == "mine"
    assert queue.forward_dead_lettered_messages_to == f"sb://127.0.0.1:{tls_bus.admin_port}/plain-0"
    assert queue.status == EntityStatus.ACTIVE
    with pytest.raises(ResourceExistsError):
        admin.create_queue("made")
    queue.max_delivery_count = 5
    admin.update_queue(queue)
    assert admin.get_queue("made").max_delivery_count == 5
    queue.requires_session = True
    with pytest.raises(HttpResponseError, match="RequiresSession cannot be changed"):
        admin.update_queue(queue)
    with ServiceBusClient.from_connection_string(tls_bus.connection_string) as client:
        with client.get_queue_sender("made") as sender:
            sender.send_messages([ServiceBusMessage("a", message_id="1"), ServiceBusMessage("a", message_id="1")])
            runtime = admin.get_queue_runtime_properties("made")
            assert (runtime.active_message_count, runtime.total_message_count) == (1, 1)
            assert runtime.size_in_bytes > 0
            admin.delete_queue("made")
            with pytest.raises(MessagingEntityNotFoundError, match="The messaging entity 'made' could not be found"):
                sender.send_messages(ServiceBusMessage("too late"))
    with pytest.raises(ResourceNotFoundError):
        admin.get_queue("made")
    with pytest.raises(ResourceNotFoundError):
        admin.delete_queue("made")
    names = [queue.name for queue in admin.list_queues()]
    assert len(names) == len(set(names)) > 200  # several pages
    assert {"plain-0", "sessions-99"} < set(names)


def test_topics_subscriptions_and_rules(admin: ServiceBusAdministrationClient) -> None:
    """Topics, subscriptions and rules of every kind are created, read back equal, changed, listed and deleted."""
    admin.create_topic("events", default_message_time_to_live=timedelta(days=1))
    assert admin.get_topic("events").default_message_time_to_live == timedelta(days=1)
    admin.create_subscription("events", "all", requires_session=True, lock_duration="PT20S")
    assert admin.get_subscription("events", "all").requires_session
    assert [rule.name for rule in admin.list_rules("events", "all")] == ["$Default"]
    assert isinstance(admin.get_rule("events", "all", "$Default").filter, TrueRuleFilter)
    admin.delete_rule("events", "all", "$Default")
    sql = SqlRuleFilter("price > @limit AND color = 'red'", parameters={"@limit": 10})
    admin.create_rule("events", "all", "sql", filter=sql, action=SqlRuleAction("SET seen = TRUE"))
    correlation = CorrelationRuleFilter(
        correlation_id="c", label="l", properties={"text": "t", "n": 3, "f": 0.5, "yes": True, "big": 2**40}
    )
    admin.create_rule("events", "all", "correlation", filter=correlation)
    admin.create_rule("events", "all", "never", filter=FalseRuleFilter())
    rules = {rule.name: rule for rule in admin.list_rules("events", "all")}
    assert set(rules) == {"sql", "correlation", "never"}
    assert (rules["sql"].filter.sql_expression, rules["sql"].filter.parameters) == (sql.sql_expression, {"@limit": 10})
    assert rules["sql"].action.sql_expression == "SET seen = TRUE"
    assert rules["correlation"].filter.properties == correlation.properties
    assert (rules["correlation"].filter.correlation_id, rules["correlation"].filter.label) == ("c", "l")
    assert isinstance(rules["never"].filter, FalseRuleFilter)
    with pytest.raises(HttpResponseError, match="a value expected"):
        admin.create_rule("events", "all", "broken", filter=SqlRuleFilter("price >"))
    rules["sql"].filter = SqlRuleFilter("price > 20")
    admin.update_rule("events", "all", rules["sql"])
    assert admin.get_rule("events", "all", "sql").filter.sql_expression == "price > 20"
    runtime = admin.get_topic_runtime_properties("events")
    assert (runtime.subscription_count, runtime.scheduled_message_count) == (1, 0)
    assert admin.get_subscription_runtime_properties("events", "all").active_message_count == 0
    assert [item.name for item in admin.list_subscriptions("events")] == ["all"]
    admin.delete_subscription("events", "all")
    with pytest.raises(ResourceNotFoundError):
        admin.get_subscription("events", "all")
    admin.delete_topic("events")
    assert "events" not in [topic.name for topic in admin.list_topics()]


def test_rules_with_dates_and_durations(admin: ServiceBusAdministrationClient, tls_bus: Bus) -> None:
    """They are read back as written, select messages with that date, and are there after a restart.

    Azure/azure-sdk-for-python, `test_mgmt_rules.py` (recorded from Azure): a date without a time zone stays without.
    """
    moment = datetime(2020, 7, 5, 11, 12, 13, tzinfo=UTC)
    properties = {
        "aware": moment,
        "naive": datetime(2020, 7, 5, 11, 12, 13),  # noqa: DTZ001 - as Azure's own test
        "long": timedelta(days=1, hours=2, minutes=3),
    }
    admin.create_topic("dated")
    admin.create_subscription("dated", "all")
    admin.delete_rule("dated", "all", "$Default")
    admin.create_rule("dated", "all", "all", filter=CorrelationRuleFilter(properties=properties))
    admin.create_rule("dated", "all", "aware", filter=CorrelationRuleFilter(properties={"aware": moment}))
    sql = SqlRuleFilter("aware < @end", parameters={"@end": moment - timedelta(seconds=1)})
    admin.create_rule("dated", "all", "sql", filter=sql)
    rules = {rule.name: rule for rule in admin.list_rules("dated", "all")}
    assert (rules["all"].filter.properties, rules["sql"].filter.parameters) == (properties, sql.parameters)
    with ServiceBusClient.from_connection_string(tls_bus.connection_string) as client:
        with client.get_topic_sender("dated") as sender:
            for name, at in (
                ("match", moment),
                ("early", moment - timedelta(hours=1)),
                ("late", moment + timedelta(hours=1)),
            ):
                sender.send_messages(ServiceBusMessage(name, application_properties={"aware": at}))
        with client.get_subscription_receiver("dated", "all") as receiver:
            assert [str(message) for message in receiver.peek_messages(9, sequence_number=1)] == ["match", "early"]
    admin.delete_topic("dated")


def test_disabled_entities_refuse(admin: ServiceBusAdministrationClient, tls_bus: Bus) -> None:
    """An entity set to SendDisabled accepts no messages until it is active again."""
    queue = admin.create_queue("switched")
    queue.status = EntityStatus.SEND_DISABLED
    admin.update_queue(queue)
    with ServiceBusClient.from_connection_string(tls_bus.connection_string, retry_total=0) as client:
        with pytest.raises(ServiceBusError, match="disabled"), client.get_queue_sender("switched") as sender:
            sender.send_messages(ServiceBusMessage("x"))
        queue.status = EntityStatus.ACTIVE
        admin.update_queue(queue)
        with client.get_queue_sender("switched") as sender:
            sender.send_messages(ServiceBusMessage("x"))


def test_namespace(admin: ServiceBusAdministrationClient) -> None:
    """The namespace has a name and a tier."""
    assert admin.get_namespace_properties().messaging_sku == "Standard"


def test_changes_survive_a_kill(config_path: Path, tmp_path: Path) -> None:
    """Created, changed and deleted entities survive SIGKILL, with their rules and messages."""
    arguments = ("--config", config_path, "--tls", "--data", tmp_path)
    bus = start_bus(*arguments)
    try:
        with administration(bus, tmp_path) as admin:
            admin.create_queue("Kept", max_delivery_count=7)
            admin.create_topic("Topic")
            admin.create_subscription("Topic", "Sub")
            admin.create_rule("Topic", "Sub", "only", filter=SqlRuleFilter("a = 1"))
            admin.delete_rule("Topic", "Sub", "$Default")
            admin.delete_queue("plain-7")
            admin.delete_subscription("steps", "urgent")
            admin.delete_rule("steps", "ocr", "$Default")
            admin.create_topic("gone")
            admin.create_subscription("gone", "old")
            admin.delete_topic("gone")
            admin.create_topic("gone")
        with ServiceBusClient.from_connection_string(bus.connection_string) as client:
            with client.get_queue_sender("kept") as sender:
                sender.send_messages(ServiceBusMessage("x"))
        bus.kill()
        bus = start_bus(*arguments)
        with administration(bus, tmp_path) as admin:
            kept = admin.get_queue("kept")
            assert kept.max_delivery_count == 7
            assert admin.get_queue_runtime_properties("Kept").active_message_count == 1
            assert "Kept" in [queue.name for queue in admin.list_queues()]
            assert [rule.name for rule in admin.list_rules("Topic", "Sub")] == ["only"]
            assert [rule.name for rule in admin.list_rules("steps", "ocr")] == []
            assert {item.name for item in admin.list_subscriptions("steps")} == {"ocr", "everything"}
            assert list(admin.list_subscriptions("gone")) == []
        with ServiceBusClient.from_connection_string(bus.connection_string, retry_total=0) as client:
            with pytest.raises(MessagingEntityNotFoundError), client.get_queue_sender("plain-7") as sender:
                sender.send_messages(ServiceBusMessage("x"))
    finally:
        bus.kill()
