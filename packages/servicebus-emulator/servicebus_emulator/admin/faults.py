"""Faults on demand, for tests of an application's recovery.

POST /faults with one of
    {"fault": "drop-connections", "entity": NAME?}            drops all connections, or all with a link to the entity
    {"fault": "detach-links", "entity": NAME?}                detaches links with amqp:link:detach-forced
    {"fault": "delay", "ms": N}                               delays all output by N ms, until it is set to 0
    {"fault": "refuse-sends", "entity": NAME, "ms": N}        refuses sends for N ms, as a busy server does
    {"fault": "duplicate", "entity": NAME, "count": N}        delivers the next N completed messages once more
DELETE /faults ends delays, refusals and duplicates.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from servicebus_emulator.broker.errors import InvalidRequest
from servicebus_emulator.broker.topic import Topic
from servicebus_emulator.server import BusServer


class Faults:
    """The faults of one server."""

    def __init__(self, bus: BusServer) -> None:
        self._bus = bus

    def inject(self, request: Any) -> dict[str, int]:
        """Sets a fault. Returns the number of connections, links, milliseconds or messages that it affects.

        Raises InvalidRequest for an unknown fault or field or a wrong value, and EntityNotFound for an unknown entity
        of a refusal or duplicate.
        """
        if not isinstance(request, dict):
            raise InvalidRequest("A fault must be a JSON object.")
        inject = _FAULTS.get(str(request.get("fault")))
        if inject is None:
            raise InvalidRequest(f"fault must be one of {', '.join(_FAULTS)}")
        unknown = set(request) - {"fault", "entity", "ms", "count"}
        if unknown:
            raise InvalidRequest(f"unknown fields: {', '.join(sorted(unknown))}")
        return {"affected": inject(self, request)}

    def clear(self) -> None:
        self._bus.delay_s = 0.0
        for destination in self._bus.broker.destinations.values():
            destination.refuse_until_ms = 0
        for queue in self._bus.broker.queues():
            queue.repeats = 0

    def _drop_connections(self, request: dict[str, Any]) -> int:
        entity = _entity(request)
        clients = [client for client in self._bus.clients if entity is None or client.gateway.uses(entity)]
        for client in clients:
            client.abort()
        return len(clients)

    def _detach_links(self, request: dict[str, Any]) -> int:
        entity = _entity(request)
        return sum(client.gateway.detach(entity) for client in list(self._bus.clients))

    def _delay(self, request: dict[str, Any]) -> int:
        ms = _number(request, "ms")
        self._bus.delay_s = ms / 1000
        return ms

    def _refuse_sends(self, request: dict[str, Any]) -> int:
        ms = _number(request, "ms")
        destination = self._bus.broker.destination(_entity(request) or "")
        destination.refuse_until_ms = self._bus.broker.clock.now_ms() + ms
        return ms

    def _duplicate(self, request: dict[str, Any]) -> int:
        count = _number(request, "count")
        path = _entity(request) or ""
        destination = self._bus.broker.destinations.get(path.lower())
        if destination is not None and isinstance(destination.entity, Topic):
            raise InvalidRequest("A topic delivers no messages; name one of its subscriptions.")
        self._bus.broker.queue(path).repeats = count
        return count


_FAULTS: dict[str, Callable[[Faults, dict[str, Any]], int]] = {
    "drop-connections": Faults._drop_connections,
    "detach-links": Faults._detach_links,
    "delay": Faults._delay,
    "refuse-sends": Faults._refuse_sends,
    "duplicate": Faults._duplicate,
}


def _entity(request: dict[str, Any]) -> str | None:
    entity = request.get("entity")
    if entity is not None and not isinstance(entity, str):
        raise InvalidRequest("entity must be a name such as orders or orders/Subscriptions/audit")
    return entity


def _number(request: dict[str, Any], name: str) -> int:
    number = request.get(name)
    if type(number) is not int or number < 0:
        raise InvalidRequest(f"{name} must be a whole number of at least 0")
    return number
