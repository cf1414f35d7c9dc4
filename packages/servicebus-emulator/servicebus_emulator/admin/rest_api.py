"""The management API: queues, topics, subscriptions and rules over HTTP, as ServiceBusAdministrationClient calls it.

    PUT, GET, DELETE /{entity}                                     a queue or topic
    PUT, GET, DELETE /{topic}/subscriptions/{name}[/rules/{rule}]
    GET /$Resources/queues | /$Resources/topics | /{topic}/subscriptions | .../{name}/rules    pages by $skip and $top
    GET /$namespaceinfo

PUT creates an entity (409 if the entity exists). With `If-Match`, PUT changes an entity.

GET of a missing queue or topic returns an empty feed with the status 200, which the SDKs take for "not found". GET of a
missing subscription or rule returns 404. Azure does both (ballerina-platform/module-ballerinax-asb, tests of the Java
SDK against Azure).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar
from xml.etree.ElementTree import Element

from servicebus_emulator.atom import entities_xml, feeds, fields, rules_xml
from servicebus_emulator.broker.broker import Broker
from servicebus_emulator.broker.descriptions import RuleDescription
from servicebus_emulator.broker.destination import Destination
from servicebus_emulator.broker.errors import (
    NAMESPACE,
    BusError,
    EntityConflict,
    EntityExists,
    EntityNotFound,
    InvalidRequest,
    TopicPartNotFound,
    topic_part,
)
from servicebus_emulator.broker.queue import MessageQueue
from servicebus_emulator.broker.topic import Subscription, Topic
from servicebus_emulator.stored_entities import set_rules, store_entity, store_subscription

_DEEP = re.compile(
    r"(?P<topic>.+?)/subscriptions(?:/(?P<name>[^/]+)(?:/(?P<rules>rules)(?:/(?P<rule>[^/]+))?)?)?", re.IGNORECASE
)
_PAGE = 100
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Request:
    """A request to the management API."""

    method: str
    #: path, decoded, without the leading slash
    path: str
    query: Mapping[str, str]
    #: `True` if `If-Match` was sent: the request changes an existing entity
    has_if_match: bool
    body: bytes
    #: URL before the path, for links
    base_url: str

    @property
    def endpoint(self) -> str:
        """Returns the endpoint of the namespace, as the client calls it."""
        return f"sb://{self.base_url.partition('://')[2]}"


class RestApi:
    """The management API. Stores the changes that a request makes to entities."""

    def __init__(self, broker: Broker, on_removed: Callable[[], None], *, is_premium: bool = False) -> None:
        self._broker = broker
        self._is_premium = is_premium
        self._on_removed = on_removed

    def handle(self, request: Request) -> tuple[int, str]:
        """Returns the status and the XML of the response."""
        try:
            return self._route(request)
        except BusError as error:
            return error.status if error.status < 500 else 400, feeds.error(error.status, error.description)

    def _route(self, request: Request) -> tuple[int, str]:
        resource = request.path.lower()
        if resource == "$namespaceinfo":
            return 200, self._namespace(request)
        if resource.startswith("$resources/"):
            return 200, self._list_entities(request, resource.removeprefix("$resources/"))
        deep = _DEEP.fullmatch(request.path)
        if deep is None:
            return self._entity(request)
        topic = self._broker.topic(deep["topic"])
        if deep["name"] is None:
            return 200, self._list_subscriptions(request, topic)
        if deep["rules"] is None:
            return self._subscription(request, topic, deep["name"])
        subscription = self._broker.subscription(topic.path, deep["name"])
        if deep["rule"] is None:
            return 200, self._list_rules(request, topic, subscription)
        return self._rule(request, topic, subscription, deep["rule"])

    # Queues and topics

    def _entity(self, request: Request) -> tuple[int, str]:
        name = request.path
        existing = self._broker.destinations.get(name.lower())
        match request.method:
            case "GET":
                return 200, self._empty(request) if existing is None else self._entity_entry(request, existing)
            case "DELETE":
                if existing is None:
                    raise EntityNotFound(name)
                self._broker.remove(name)
                self._broker.store.forget_entities(f"{existing.path}/")
                self._broker.store.put_entity(existing.path, None)
                self._on_removed()
                return 200, ""
            case "PUT":
                if request.has_if_match and existing is None:
                    raise EntityNotFound(name)
                if existing is not None and not request.has_if_match:
                    raise EntityConflict(name)
                element = feeds.read_content(request.body)
                if existing is None:
                    self._create(name, element)
                else:
                    self._change(existing, element)
                destination = self._broker.destinations[name.lower()]
                store_entity(self._broker, destination, created=existing is None)
                return 200 if existing else 201, self._entity_entry(request, destination)
        raise InvalidRequest(f"{request.method} is not supported here.")

    def _create(self, name: str, element: Element) -> None:
        if name.lower().startswith("$") or not re.fullmatch(r"[\w][\w.\-/~]{0,259}", name):
            raise InvalidRequest(f"'{name}' is not an entity name.")
        if element.tag.endswith("}QueueDescription"):
            queue = entities_xml.read_queue(name, element)
            self._check_targets(queue.forward_to, queue.forward_dead_letters_to)
            self._check_size(queue.max_size_bytes)
            self._broker.add_queue(queue)
        elif element.tag.endswith("}TopicDescription"):
            topic = entities_xml.read_topic(name, element)
            self._check_size(topic.max_size_bytes)
            self._broker.add_topic(topic)
        else:
            raise InvalidRequest("The content must be a QueueDescription or TopicDescription.")

    def _change(self, destination: Destination, element: Element) -> None:
        old_bytes = destination.entity.description.max_size_bytes
        if isinstance(destination.entity, Topic):
            topic = entities_xml.change_topic(destination.entity.description, element)
            self._check_size(topic.max_size_bytes, old_bytes)
            self._broker.change_topic(topic)
        else:
            queue = entities_xml.change_queue(destination.entity.description, element)
            self._check_targets(queue.forward_to, queue.forward_dead_letters_to)
            self._check_size(queue.max_size_bytes, old_bytes)
            self._broker.change_queue(queue)

    def _check_size(self, size_bytes: int, old_bytes: int | None = None) -> None:
        """Raises InvalidRequest for a size that Azure does not offer. An entity keeps its configured size."""
        sizes = fields.PREMIUM_SIZES_MB if self._is_premium else fields.STANDARD_SIZES_MB
        size_mb = size_bytes // fields.MEGABYTE
        if size_bytes != old_bytes and size_mb not in sizes:
            raise InvalidRequest(
                f"SubCode=40000. The specified value {size_mb} is invalid. The property MaxSizeInMegabytes, "
                f"must be one of the following values: {';'.join(map(str, sizes))}"
            )

    def _check_targets(self, *names: str | None) -> None:
        for name in names:
            if name is not None and name.lower() not in self._broker.destinations:
                raise InvalidRequest(f"The entity '{name}' to forward to does not exist.")

    def _entity_entry(self, request: Request, destination: Destination, *, root: bool = True) -> str:
        entity = destination.entity
        content = entities_xml.write(entity, request.endpoint)
        return feeds.entry(
            request.base_url,
            destination.path,
            destination.path,
            feeds.instant(entity.created_at_ms),
            content,
            root=root,
        )

    def _list_entities(self, request: Request, kind: str) -> str:
        entity_class = {"queues": MessageQueue, "topics": Topic}.get(kind)
        if entity_class is None:
            raise InvalidRequest(f"There are no '{kind}' to list.")
        destinations = [item for item in self._broker.destinations.values() if isinstance(item.entity, entity_class)]
        destinations.sort(key=lambda item: item.path)
        return self._feed(request, destinations, lambda item: self._entity_entry(request, item, root=False))

    def _namespace(self, request: Request) -> str:
        at = feeds.instant(self._broker.clock.now_ms())
        texts = {
            "Alias": "",
            "CreatedTime": at,
            "MessagingSKU": "Premium" if self._is_premium else "Standard",
            "ModifiedTime": at,
            "Name": NAMESPACE,
            "NamespaceType": "Messaging",
        }
        content = feeds.write_description("NamespaceInfo", texts)
        return feeds.entry(request.base_url, "$namespaceinfo", NAMESPACE, at, content)

    # Subscriptions

    def _expect(self, request: Request, exists: bool, topic: Topic, *names: str) -> None:
        """Raises the error of a PUT that creates an existing subscription or rule, or changes a missing one."""
        if request.has_if_match and not exists:
            raise TopicPartNotFound(topic.path, *names)
        if exists and not request.has_if_match:
            raise EntityExists(topic_part(topic.path, *names))

    def _subscription(self, request: Request, topic: Topic, name: str) -> tuple[int, str]:
        existing = topic.subscriptions.get(name.lower())
        match request.method:
            case "GET":
                if existing is None:
                    raise TopicPartNotFound(topic.path, name)
                return 200, self._subscription_entry(request, existing)
            case "DELETE":
                if existing is None:
                    raise TopicPartNotFound(topic.path, name)
                self._broker.remove_subscription(topic.path, name)
                self._broker.store.put_entity(existing.queue.path, None)
                self._on_removed()
                return 200, ""
            case "PUT":
                self._expect(request, existing is not None, topic, name)
                element = feeds.read_content(request.body)
                if existing is None:
                    description = entities_xml.read_subscription(name, element)
                else:
                    queue = entities_xml.change_subscription(existing.description.queue, element)
                    description = replace(existing.description, queue=queue)
                self._check_targets(description.queue.forward_to, description.queue.forward_dead_letters_to)
                if existing is None:
                    subscription = self._broker.add_subscription(topic.path, description)
                else:
                    self._broker.change_subscription(topic.path, description)
                    subscription = existing
                store_subscription(self._broker, subscription)
                return 200 if existing else 201, self._subscription_entry(request, subscription)
        raise InvalidRequest(f"{request.method} is not supported here.")

    def _subscription_entry(self, request: Request, subscription: Subscription, *, root: bool = True) -> str:
        content = entities_xml.write_subscription(subscription, request.endpoint)
        at = feeds.instant(subscription.queue.created_at_ms)
        return feeds.entry(
            request.base_url, subscription.queue.path, subscription.description.queue.name, at, content, root=root
        )

    def _list_subscriptions(self, request: Request, topic: Topic) -> str:
        subscriptions = sorted(topic.subscriptions.values(), key=lambda item: item.queue.path)
        return self._feed(request, subscriptions, lambda item: self._subscription_entry(request, item, root=False))

    # Rules

    def _rule(self, request: Request, topic: Topic, subscription: Subscription, name: str) -> tuple[int, str]:
        rules = {rule.name.lower(): rule for rule in subscription.description.rules}
        existing = rules.get(name.lower())
        match request.method:
            case "GET":
                if existing is None:
                    raise TopicPartNotFound(topic.path, subscription.description.queue.name, name)
                return 200, self._rule_entry(request, subscription, existing)
            case "DELETE":
                if existing is None:
                    raise TopicPartNotFound(topic.path, subscription.description.queue.name, name)
                del rules[name.lower()]
                set_rules(self._broker, topic.path, subscription, rules.values())
                return 200, ""
            case "PUT":
                self._expect(request, existing is not None, topic, subscription.description.queue.name, name)
                rule = rules_xml.read_rule(name, feeds.read_content(request.body))
                rules[name.lower()] = rule
                set_rules(self._broker, topic.path, subscription, rules.values())
                return 200 if existing else 201, self._rule_entry(request, subscription, rule)
        raise InvalidRequest(f"{request.method} is not supported here.")

    def _rule_entry(
        self, request: Request, subscription: Subscription, rule: RuleDescription, *, root: bool = True
    ) -> str:
        at = feeds.instant(subscription.queue.created_at_ms)
        path = f"{subscription.queue.path}/Rules/{rule.name}"
        return feeds.entry(request.base_url, path, rule.name, at, rules_xml.write_rule(rule, at), root=root)

    def _list_rules(self, request: Request, topic: Topic, subscription: Subscription) -> str:
        rules = subscription.description.rules_by_name()
        return self._feed(request, rules, lambda rule: self._rule_entry(request, subscription, rule, root=False))

    # Feeds

    def _empty(self, request: Request) -> str:
        at = feeds.instant(self._broker.clock.now_ms())
        return feeds.feed(request.base_url, request.path, "Publicly Listed Services", at, [])

    def _feed(self, request: Request, items: list[_T], write: Callable[[_T], str]) -> str:
        try:
            skip, top = (int(request.query.get(name, default)) for name, default in (("$skip", 0), ("$top", _PAGE)))
        except ValueError as error:
            raise InvalidRequest("$skip and $top must be numbers.") from error
        if skip < 0 or top < 1:
            raise InvalidRequest("$skip must be at least 0, and $top at least 1.")
        page = [write(item) for item in items[skip : skip + min(top, _PAGE)]]
        after = skip + len(page)
        following = f"$skip={after}&$top={top}&api-version=2021-05" if after < len(items) else None
        at = feeds.instant(self._broker.clock.now_ms())
        return feeds.feed(request.base_url, request.path, request.path, at, page, following)
