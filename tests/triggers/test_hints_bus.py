"""The functions of public events: `LUCIUS_EVENTS=off` removes them, and a foreign message fails no batch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import azure.functions as func
import pytest

from shared.core.events.hints import encode_hint
from shared.core.webhooks.webhooks import DeliveryState
from shared.operations.process.hinting import Hinting
from shared.ports.webhooks import encode_call
from shared.settings import load
from shared.wiring import Wiring
from tests.contexts import changed
from tests.memory_bus import MemoryHints
from tests.memory_stores import MemoryFeed
from tests.operations.conftest import World, world
from tests.operations.support import submitted
from tests.worlds.webhooks import hooked
from triggers import hints_bus, prune_timer, webhooks_bus

__all__ = ["world"]  # the fixture


BUS = {
    "LUCIUS_STORAGE_BACKEND": "memory",
    "LUCIUS_AUTH_MODE": "none",
    "LUCIUS_SERVICEBUS_CONNECTION": "Endpoint=sb://127.0.0.1;SharedAccessKeyName=n;SharedAccessKey=k",
}
#: a host name is a sign of a deployment
JWT = {
    "LUCIUS_AUTH_ISSUER": "https://issuer.example.com",
    "LUCIUS_AUTH_AUDIENCE": "api://lucius",
    "LUCIUS_AUTH_JWKS_URL": "https://issuer.example.com/keys",
}


class FixedWiring:
    def __init__(self, given: World, events: str) -> None:
        self.settings = replace(given.context.settings, events=events, webhook_keys=(("k1", b"1" * 32),))
        self._context = replace(given.context, settings=self.settings)

    def context(self) -> Any:
        return self._context


def functions(given: World) -> dict[str, Any]:
    """Returns the functions of the worker, by name."""
    wiring: Any = FixedWiring(given, "feed")
    app = func.FunctionApp()
    for module in (hints_bus, webhooks_bus, prune_timer):
        app.register_functions(module.blueprint(wiring))
    return {each.get_function_name(): each for each in app.get_functions()}


def test_only_prune_is_there_while_events_are_off(world: World) -> None:
    """Quotas have logs, and breakers have incidents, without events too."""
    wiring: Any = FixedWiring(world, "off")
    for module in (hints_bus, webhooks_bus):
        assert module.blueprint(wiring)._function_builders == []
    assert len(prune_timer.blueprint(wiring)._function_builders) == 1


@pytest.mark.parametrize(("events", "built"), [("off", (False, False)), ("", (True, False)), ("topic", (True, True))])
async def test_what_is_built_for_events(events: str, built: tuple[bool, bool, bool]) -> None:
    """With `off` nothing that could cost; without a word the feed, and no topic."""
    context = Wiring(load({**BUS, "LUCIUS_EVENTS": events})).context()
    assert (context.events is not None, context.events is not None and context.events.relay is not None) == built


@pytest.mark.parametrize("identity", [False, True])
async def test_events_may_have_a_namespace_of_their_own(identity: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a connection string or by the app's identity; hints stay on the bus."""
    monkeypatch.setattr("shared.wiring.credential_of", lambda connection: None if connection else object())
    named = (
        {"LUCIUS_EVENTS_CONNECTION__fullyQualifiedNamespace": "events.example.com"}
        if identity
        else {"LUCIUS_EVENTS_CONNECTION": "Endpoint=sb://events.example.com;SharedAccessKeyName=n;SharedAccessKey=k"}
    )
    environment = {name: value for name, value in BUS.items() if name != "LUCIUS_AUTH_MODE"} | JWT
    context = Wiring(load({**environment, **named, "LUCIUS_EVENTS": "topic"})).context()
    events: Any = context.events
    passing, hinting = events.relay, events.hinting
    assert passing._topic._opened.__self__.fully_qualified_namespace == "events.example.com"
    assert hinting._queue._opened.__self__.fully_qualified_namespace == "127.0.0.1"


async def test_a_message_that_is_no_hint_harms_no_batch(world: World) -> None:
    feed, queue = MemoryFeed(), MemoryHints()
    context = changed(world.context, feed=feed, hinting=Hinting(queue, world.clock))
    fed = replace(world, context=context)
    job_id = await submitted(fed)
    await context.events.hinting.settle()
    found = functions(fed)
    assert set(found) == {"tell", "deliver", "prune"}
    [hint] = [hint for hint, _ in queue.sent]

    class Message:
        message_id = "m"

        def __init__(self, body: bytes) -> None:
            self._body = body

        def get_body(self) -> bytes:
            return self._body

    await found["tell"].get_user_function()([Message(b"{"), Message(encode_hint(hint)), Message(b'{"tenant": 1}')])
    [event] = await feed.events("tenant_a", after=0, limit=10)
    assert (event.job_id, event.event_type) == (job_id, "job.queued")


async def test_a_message_of_the_queue_of_webhooks(world: World, caplog: pytest.LogCaptureFixture) -> None:
    given = hooked(world)
    hook = await given.hook()
    await given.finished()
    wiring: Any = FixedWiring(given.world, "feed")
    wiring._context = given.world.context
    app = func.FunctionApp()
    app.register_functions(webhooks_bus.blueprint(wiring))
    [deliver] = app.get_functions()

    class Message:
        message_id = "m"

        def __init__(self, body: bytes) -> None:
            self._body = body

        def get_body(self) -> bytes:
            return self._body

    for body in (b"{", *(encode_call(call) for call in given.taken())):
        await deliver.get_user_function()(Message(body))
    assert "DELIVERY_UNKNOWN" in caplog.text
    assert {row.state for row in await given.deliveries(hook)} == {DeliveryState.DELIVERED}
    without = replace(wiring.settings, webhook_keys=())
    wiring.settings = without
    assert webhooks_bus.blueprint(wiring)._function_builders == []
