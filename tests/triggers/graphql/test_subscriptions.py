"""GraphQL subscriptions: each message with the cursor behind it, gaps, ends and room (R83)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pytest

from shared.errors import LedgerUnavailable
from shared.operations.process.waiters import MAX_FOLLOWERS
from tests.operations.conftest import World
from tests.triggers.graphql.conftest import SUBSCRIPTION, Api, codes, in_feed, refusal
from tests.worlds.events import Fed, of
from triggers import events_http


async def test_each_message_has_the_cursor_behind_it(api: Api) -> None:
    """A reader that disconnects after any message and reconnects with its cursor gets the rest, each event once."""
    [(kind, first)] = await api.stream(SUBSCRIPTION)
    assert (kind, first["data"]["events"]["event"]) == ("next", None)
    for number in range(3):
        await in_feed(api, doc_id=str(number), idempotency_key=str(number))
    whole = [each["id"] for each in (await api.get("events_read"))["events"]]
    assert len(whole) == 3
    after, seen = first["data"]["events"]["cursor"], []
    while len(seen) < len(whole):
        answers = await api.stream(SUBSCRIPTION, after=after)
        # an end without `complete` is a lost connection
        assert {kind for kind, _ in answers} == {"next"}
        for _, answer in answers[:2]:
            seen.append(answer["data"]["events"]["event"]["id"])
            after = answer["data"]["events"]["cursor"]
    assert seen == whole
    # no more events yet: the position is sent, so that the client's count of tries starts again
    end = {"cursor": after, "gap": False, "event": None}
    assert await api.stream(SUBSCRIPTION, after=after) == [("next", {"data": {"events": end}})]


async def test_what_nothing_fits_moves_the_position(api: Api) -> None:
    """Otherwise the events at the cursor would be deleted one day."""
    await in_feed(api)
    [(_, answer)] = await api.stream(SUBSCRIPTION, after="earliest", jobId="another")
    found = answer["data"]["events"]
    assert (found["event"], found["gap"]) == (None, False)
    assert found["cursor"] == (await api.get("events_read"))["next"]


async def test_a_position_that_is_gone_is_a_gap(api: Api) -> None:
    """With the earliest valid position, from which the client continues by itself."""
    await in_feed(api)
    [(_, answer)] = await api.stream(SUBSCRIPTION, after="c3RyYW5nZXI6MQ==")
    found = answer["data"]["events"]
    assert (found["event"], found["gap"]) == (None, True)
    assert (await api.stream(SUBSCRIPTION, after=found["cursor"]))[0][1]["data"]["events"]["event"] is not None


@pytest.mark.parametrize(
    ("given", "code"),
    [('tenant_id: "tenant_b"', "TENANT_FORBIDDEN"), ('after: "x"', "CURSOR_INVALID"), ("limit: 101", "LIMIT_INVALID")],
)
async def test_a_refused_subscription_is_over(api: Api, given: str, code: str) -> None:
    [(kind, answer), last] = await api.stream(f"subscription {{events({given}) {{cursor}}}}")
    assert (kind, codes(answer), last) == ("next", [(code, ["events"])], ("complete", None))


async def test_without_a_feed_there_is_no_subscription(world: World) -> None:
    fed = of(world)
    off = Fed(replace(fed.world, context=replace(fed.world.context, events=None)), fed.queue, fed.feed)
    [(_, answer), _] = await Api(off).stream(SUBSCRIPTION)
    assert codes(answer) == [("EVENTS_OFF", ["events"])]


@pytest.fixture
def full(api: Api) -> Iterator[None]:
    with ExitStack() as stack:
        for _ in range(MAX_FOLLOWERS):
            stack.enter_context(api.context.process.waiters.hold("tenant_a", follower=True))
        yield


@pytest.mark.usefixtures("full")
async def test_past_the_room_nothing_is_held(api: Api) -> None:
    """The bound covers all requests that wait for events.

    No message is sent, so that the client's pauses grow; existing events are sent.
    """
    [(_, answer)] = await api.stream(SUBSCRIPTION)
    assert await api.stream(SUBSCRIPTION, after=answer["data"]["events"]["cursor"]) == []
    await in_feed(api)
    assert await api.stream(SUBSCRIPTION, after="earliest")


async def test_a_subscription_is_held(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """As one of the requests that wait for the tenant's feed."""
    held = []

    async def follow(*_given: Any, **named: Any) -> Any:
        held.append((api.context.process.waiters.has_room("tenant_a", follower=True), named["wait_s"]))
        raise LedgerUnavailable("enough")

    [(_, answer)] = await api.stream(SUBSCRIPTION)
    monkeypatch.setattr(events_http, "follow_feed", follow)
    with ExitStack() as stack:
        for _ in range(MAX_FOLLOWERS - 1):
            stack.enter_context(api.context.process.waiters.hold("tenant_a", follower=True))
        after = answer["data"]["events"]["cursor"]
        await refusal(api, {"query": SUBSCRIPTION, "variables": {"after": after}}, "text/event-stream")
    assert held == [(False, events_http.HOLD_S)]
