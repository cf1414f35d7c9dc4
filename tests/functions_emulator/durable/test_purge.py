"""Purge, as the extension does it with Azure Storage: stored rows are deleted, messages in transit stay in their
queues.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import azure.durable_functions as df
import azure.functions as func
import pytest
from azure.durable_functions import Entity

from functions_emulator.durable.entities import encode_batch
from functions_emulator.durable.errors import InstanceNotFoundError, WrongStatusError
from functions_emulator.durable.events import Kind
from functions_emulator.durable.http_api import ApiRequest, ApiResponse, HttpApi, Links
from tests.functions_emulator.durable.functions import Context, one_call, waits
from tests.functions_emulator.durable.hub import START, Hub


def sleeps(context: Context) -> Any:
    yield context.create_timer(context.current_utc_datetime + timedelta(minutes=10))
    return "slept"


def calls_child(context: Context) -> Any:
    return (yield context.call_sub_orchestrator("waits", None, "child"))


def event_then_call(context: Context) -> Any:
    value = yield context.wait_for_external_event("go")
    return (yield context.call_activity("upper", value))


def counts(context: Context) -> Any:
    return (yield context.call_entity(df.EntityId("counter", "1"), "add"))


def counter(context: df.DurableEntityContext) -> None:
    total = context.get_state(lambda: 0) + 1
    context.set_state(total)
    context.set_result(total)


ORCHESTRATORS = {one.__name__: one for one in (one_call, waits, sleeps, calls_child, event_then_call, counts)}


def hub_of(path: Path | None = None) -> Hub:
    return Hub(ORCHESTRATORS, {"upper": str.upper}, {"counter": counter}, path=path)


def purge_all(hub: Hub) -> int:
    """Purges live instances too, which a purge by id refuses."""
    return hub.client.purge_by(START, None)


def delete(hub: Hub, path: str, query: Mapping[str, str] | None = None) -> ApiResponse:
    request = ApiRequest("DELETE", path.split("/"), query or {})
    response = HttpApi(hub.client, hub.entities).handle(request, Links("http://h/", ""))
    assert response is not None
    return response


def test_purge_leaves_nothing() -> None:
    """A purged instance is unknown, its rows are deleted, and a second purge is 404."""
    hub = hub_of()
    instance_id = hub.start("one_call", "x")
    hub.run()
    assert delete(hub, f"instances/{instance_id}") == ApiResponse(200, {"instancesDeleted": 1})
    assert hub.store.instance(instance_id) is None
    tables = ("instances", "history", "messages", "activities")
    assert {name: hub.store.count(name) for name in tables} == dict.fromkeys(tables, 0)
    assert delete(hub, f"instances/{instance_id}") == ApiResponse(404)


@pytest.mark.parametrize("status", ["Pending", "Running", "Suspended"])
def test_a_live_instance_is_not_purged_by_its_id(status: str) -> None:
    """412, and the instance continues; the extension has this check since pull request 3311."""
    hub = hub_of()
    instance_id = hub.start("waits")
    if status != "Pending":
        hub.run()
    if status == "Suspended":
        hub.client.suspend(instance_id, "")
        hub.run()
    assert hub.outcome(instance_id)[0] == status
    with pytest.raises(WrongStatusError):
        hub.client.purge(instance_id)
    assert delete(hub, f"instances/{instance_id}").status == 412
    assert hub.outcome(instance_id)[0] == status


def test_an_entity_is_purged_and_begins_again() -> None:
    """Its id is exact; an operation that waits for it is for the new one."""
    hub = hub_of()
    hub.entities.signal("Counter", "1", "add", None)
    hub.run()
    hub.entities.signal("counter", "1", "add", None)
    assert delete(hub, "instances/@Counter@1").status == 404
    assert delete(hub, "instances/@counter@1") == ApiResponse(200, {"instancesDeleted": 1})
    assert hub.entities.state("counter", "1") is None
    hub.run()
    assert hub.entities.state("counter", "1") == "1"


def test_an_id_with_an_at_sign_has_no_check() -> None:
    """The extension takes an orchestration with such an id for an entity."""
    hub = hub_of()
    hub.start("waits", None, "@x")
    hub.run()
    hub.client.purge("@x")
    with pytest.raises(InstanceNotFoundError):
        hub.status("@x")


@pytest.mark.parametrize(
    ("statuses", "left"),
    [
        ("Completed", {"early", "live", "stopped", "@counter@1"}),
        ("Terminated,Failed,Running", {"early", "live", "done", "@counter@1"}),
        ("Canceled", {"early", "live", "done", "stopped", "@counter@1"}),
        ("Running", {"early"}),
        ("completed", {"early"}),
        ("", {"early"}),
    ],
)
def test_a_filter_without_an_ended_status_purges_all_that_was_created_then(statuses: str, left: set[str]) -> None:
    """Live instances and entities too. 404 where nothing was deleted."""
    hub = hub_of()
    hub.start("one_call", "a", "early")
    hub.advance(minutes=1)
    hub.start("one_call", "a", "done")
    hub.start("waits", None, "live")
    hub.start("waits", None, "stopped")
    hub.entities.signal("counter", "1", "add", None)
    hub.run()
    hub.client.terminate("stopped", "")
    hub.run()
    # the time zone of a .NET client, with its seven decimals
    query = {"createdTimeFrom": "2026-03-01T14:01:00.0000000+02:00", "runtimeStatus": statuses}
    response = delete(hub, "instances", query)
    found = {one.instance_id for one in hub.client.find()} | {one.id for one in hub.entities.find()}
    assert found == left
    expected = 5 - len(left)
    assert response == (ApiResponse(200, {"instancesDeleted": expected}) if expected else ApiResponse(404))


def test_a_filter_needs_its_first_instant() -> None:
    assert delete(hub_of(), "instances", {"runtimeStatus": "Completed"}).status == 400
    for text in ("soon", "0001-01-01T00:00:00+02:00"):
        assert delete(hub_of(), "instances", {"createdTimeFrom": text}).status == 400


def test_sub_orchestrations_stay_and_their_results_are_dropped() -> None:
    """A purge is of one instance; the child continues, and its result has no receiver."""
    hub = hub_of()
    parent = hub.start("calls_child")
    hub.run()
    hub.client.terminate(parent, "")
    hub.run()
    hub.client.purge(parent)
    assert hub.outcome("child")[0] == "Running"
    hub.raise_event("child", "go", 1)
    hub.run()
    assert hub.outcome("child") == ("Completed", 1)
    assert hub.store.count("messages") == 0


def test_what_is_under_way_stays_in_the_queues(tmp_path: Path) -> None:
    """An activity call runs and a timer fires, in another process too; neither has a receiver."""
    path = tmp_path / "hub.sqlite3"
    hub = hub_of(path)
    hub.start("one_call", "x", "a")
    hub.start("sleeps", None, "b")
    for _ in range(2):
        episode = hub.engine.next_episode()
        assert episode is not None
        hub.run_episode(episode)
    assert purge_all(hub) == 2
    assert (hub.store.count("activities"), hub.store.count("messages")) == (1, 1)
    hub.store.close()
    hub = hub_of(path)
    hub.run()
    assert hub.calls == [("upper", "x")]
    hub.clock.advance_to(START)
    hub.advance(minutes=11)
    assert (hub.store.count("activities"), hub.store.count("messages")) == (0, 0)


def test_a_new_instance_with_the_id_gets_the_events_but_no_results() -> None:
    """An event is for the present instance of the id; results and timers are for the execution that requested them."""
    hub = hub_of()
    hub.start("sleeps", None, "same")
    hub.run()
    hub.raise_event("same", "go", "for whom?")
    purge_all(hub)
    hub.start("waits", None, "same")
    hub.run()
    assert hub.outcome("same") == ("Completed", "for whom?")
    hub.start("sleeps", None, "same")
    hub.advance(minutes=5)
    purge_all(hub)
    hub.start("sleeps", None, "same")
    hub.advance(minutes=6)
    assert hub.outcome("same")[0] == "Running"
    assert Kind.TIMER_FIRED not in hub.kinds("same")


def test_the_start_of_a_purged_pending_instance_is_dropped() -> None:
    hub = hub_of()
    hub.start("one_call", "x", "same")
    purge_all(hub)
    hub.run()
    assert (hub.calls, hub.store.count("messages")) == ([], 0)


def test_a_termination_that_finds_nobody_ends_the_next_instance(caplog: pytest.LogCaptureFixture) -> None:
    """It becomes visible at the end of every visibility timeout (durabletask issue 1398); the log has the remedy."""
    hub = hub_of()
    hub.start("waits", None, "same")
    hub.run()
    hub.client.terminate("same", "stuck")
    purge_all(hub)
    hub.advance(minutes=11)
    assert hub.store.count("messages") == 1
    assert "Purge an instance only after it has ended" in caplog.text
    hub.start("waits", None, "same")
    hub.advance(minutes=1)
    assert hub.outcome("same")[0] == "Running"
    hub.advance(minutes=5)
    assert hub.outcome("same") == ("Terminated", "stuck")
    assert hub.store.count("messages") == 0


def test_what_an_episode_decides_is_sent_though_the_instance_was_purged() -> None:
    """The messages go out before the history is written, which then fails; the instance stays unknown."""
    hub = hub_of()
    hub.start("event_then_call", None, "same")
    hub.run()
    hub.raise_event("same", "go", "x")
    episode = hub.engine.next_episode()
    assert episode is not None
    purge_all(hub)
    hub.run_episode(episode)
    hub.run()
    assert hub.calls == [("upper", "x")]
    assert hub.store.instance("same") is None
    assert (hub.store.count("messages"), hub.store.count("history")) == (0, 0)


def test_a_child_that_was_purged_in_its_last_episode_answers_still() -> None:
    def calls_later(context: Context) -> Any:
        yield context.create_timer(context.current_utc_datetime + timedelta(minutes=1))
        return (yield context.call_sub_orchestrator("waits", None, "child"))

    hub = Hub({"calls_later": calls_later, "waits": waits})
    parent = hub.start("calls_later")
    hub.advance(minutes=2)
    hub.raise_event("child", "go", 1)
    episode = hub.engine.next_episode()
    assert episode is not None
    assert hub.client.purge_by(START + timedelta(seconds=30), None) == 1
    hub.run_episode(episode)
    hub.run()
    assert hub.outcome(parent) == ("Completed", 1)
    assert hub.store.instance("child") is None


@pytest.mark.parametrize("again", [False, True])
def test_an_instance_purged_in_its_first_episode(again: bool) -> None:
    """It is there again, since its history begins with that episode; a start in between is the one that counts."""
    hub = hub_of()
    hub.start("one_call", "x", "same")
    episode = hub.engine.next_episode()
    assert episode is not None
    purge_all(hub)
    if again:
        hub.start("one_call", "y", "same")
    hub.run_episode(episode)
    hub.run()
    assert hub.outcome("same") == ("Completed", "Y" if again else "X")


def test_an_entity_purged_during_a_batch_runs_it_again() -> None:
    """The caller has the answer of the first run; the state is that of the second, which begins without one."""
    hub = hub_of()
    for _ in range(2):
        hub.entities.signal("counter", "1", "add", None)
    hub.run()
    caller = hub.start("counts")
    hub.run_episode(hub.engine.next_episode())  # type: ignore[arg-type]  # the call
    batch = hub.entities.next_batch()
    assert batch is not None
    reply = json.loads(Entity.create(counter)(func.EntityContext(encode_batch(batch))))
    hub.client.purge("@counter@1")
    hub.entities.finish(batch, exists=True, state=reply["entityState"], results=reply["results"])
    hub.run()
    assert hub.outcome(caller) == ("Completed", 3)
    assert hub.entities.state("counter", "1") == "1"
    assert hub.store.count("messages") == 0


def test_a_custom_status_is_shown_as_json() -> None:
    """`customStatus` of a status response; `null` before the first episode."""

    def reports(context: Context) -> Any:
        context.set_custom_status({"step": 1})
        return (yield context.wait_for_external_event("go"))

    hub = Hub({"reports": reports})
    instance_id = hub.start("reports")
    api, request = HttpApi(hub.client, hub.entities), ApiRequest("GET", ["instances", instance_id])
    bodies = []
    for _ in range(2):
        response = api.handle(request, Links("http://h/", ""))
        assert response is not None
        assert response.status == 202
        bodies.append(response.body["customStatus"])
        hub.run()
    assert bodies == [None, {"step": 1}]
