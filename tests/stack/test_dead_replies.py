"""What only a sweep does: replies that the bus dead-lettered while no host was there, and jobs long ended."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime

import httpx
import pytest
from azure.data.tables import TableServiceClient
from azure.servicebus import ServiceBusClient, ServiceBusReceiver
from azure.storage.blob import BlobServiceClient

from shared.adapters.tables.keys import ended_row
from shared.views.audit import verify
from tests import running_stack
from tests.running_stack import RunningStack
from tests.stack.bare import events, job, status_is, submit, until
from tests.stack.scripted_service import LANE, ScriptedService

SUBSCRIPTION = f"global-bus-replies-p{LANE}/Subscriptions/lucius-invoker"
MAX_DELIVERIES = 10


@pytest.fixture(scope="module")
def unswept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningStack]:
    """A stack without services whose sweeper runs when it is asked only."""
    environment = {
        "LUCIUS_SWEEP_SCHEDULE": "0 0 0 29 2 *",
        # about two seconds
        "LUCIUS_IDEMPOTENCY_TTL_DAYS": "0.00002",
        "LUCIUS_RETENTION_DAYS": "0.00002",
    }
    running = running_stack.start(tmp_path_factory.mktemp("unswept"), "--without-services", environment=environment)
    try:
        yield running
    finally:
        running.stop()


def spoil(receiver: ServiceBusReceiver, how: str) -> None:
    """Takes the next reply as a broken host would."""
    for _ in range(MAX_DELIVERIES if how == "abandon" else 1):
        [message] = receiver.receive_messages(max_message_count=1, max_wait_time=10)
        if how == "abandon":
            receiver.abandon_message(message)
        else:
            receiver.dead_letter_message(message, reason="Broken", error_description="a host that cannot read")


def dead_letters(stack: RunningStack) -> int:
    entities = httpx.get(f"{stack.admin}/entities").raise_for_status().json()
    return int(entities[SUBSCRIPTION]["dead_letter"])


def reconcile(stack: RunningStack, *, dry_run: bool = False) -> int:
    answer = httpx.post(f"{stack.api}/v1/admin/reconcile", json={"dryRun": dry_run}, timeout=60).raise_for_status()
    return int(answer.json()["dead_replies"])


@pytest.mark.parametrize("how", ["abandon", "dead-letter"])
def test_a_dead_result_completes_its_job_at_the_next_sweep(unswept: RunningStack, how: str) -> None:
    """A RESULT that was given up on, and rubbish beside it: the job ends, the rubbish is parked, the queue is empty."""
    with (
        ScriptedService(unswept.bus_connection) as service,
        ServiceBusClient.from_connection_string(unswept.bus_connection) as client,
        client.get_subscription_receiver(f"global-bus-replies-p{LANE}", "lucius-invoker") as receiver,
    ):
        receiver.peek_messages()  # opens the link now: the host comes back within seconds
        job_id = submit(unswept)
        directive = service.directive(job_id)
        service.reply(directive, "ACK")
        until(unswept, job_id, status_is("IN_PROGRESS"))
        starts = unswept.kill("host")
        time.sleep(0.2)  # the bus sees the connection end; what it hands over before is locked for a minute
        service.reply(directive, "RESULT")
        service.say(f"rubbish to {how}")
        spoil(receiver, how)
        spoil(receiver, how)
    unswept.wait_for_start("host", starts + 1)
    assert dead_letters(unswept) == 2
    assert reconcile(unswept, dry_run=True) == 2
    assert (dead_letters(unswept), job(unswept, job_id)["status"]) == (2, "IN_PROGRESS")
    assert reconcile(unswept) == 2
    ended = until(unswept, job_id, status_is("SUCCEEDED"))
    assert (ended["attempts_total"], dead_letters(unswept)) == (1, 0)
    assert events(unswept, job_id)[-1] == "RESULT"
    rejected = httpx.get(f"{unswept.api}/v1/rejected", timeout=30).raise_for_status().json()["rejected"]
    why = {"abandon": "MaxDeliveryCountExceeded", "dead-letter": "Broken"}[how]
    assert [one["reason"] for one in rejected if f"(dead-lettered: {why}" in one["detail"]] == ["NOT_JSON"]


def connections(stack: RunningStack) -> int:
    return int(httpx.get(f"{stack.admin}/health").raise_for_status().json()["connections"])


def test_a_sweep_of_empty_lanes_leaves_no_connection(unswept: RunningStack) -> None:
    """Looking at sixteen dead-letter queues opens links, and closes each of them again."""
    before = connections(unswept)
    assert reconcile(unswept) == 0
    deadline = time.monotonic() + 30
    while connections(unswept) > before:
        assert time.monotonic() < deadline, "a link of the look stayed open"
        time.sleep(0.1)


def make_due(stack: RunningStack, job_id: str) -> None:
    """As if the hour after its end were over."""
    with TableServiceClient.from_connection_string(stack.storage_connection) as tables:
        index = tables.get_table_client("luciusindex")
        [row] = index.query_entities(
            "RowKey gt 'ENDED:' and RowKey lt 'ENDED;' and job_id eq @job", parameters={"job": job_id}
        )
        index.delete_entity(row["PartitionKey"], row["RowKey"])
        past = datetime(2026, 1, 1, tzinfo=UTC)
        index.create_entity({**row, "RowKey": ended_row(past, job_id), "clear_at": past})


def test_a_job_long_ended_is_purged_and_archived(unswept: RunningStack) -> None:
    """Its history goes by its id, its bundle into the archive, its rows go; all that is left proves itself."""
    with ScriptedService(unswept.bus_connection) as service:
        job_id = submit(unswept)
        service.reply(service.directive(job_id), "RESULT")
    until(unswept, job_id, status_is("SUCCEEDED"))
    instance = f"{unswept.api}/runtime/webhooks/durabletask/instances/{job_id}"
    deadline = time.monotonic() + 60
    while httpx.get(instance).json()["runtimeStatus"] != "Completed":
        assert time.monotonic() < deadline
        time.sleep(0.1)
    make_due(unswept, job_id)
    while httpx.get(f"{unswept.api}/v1/jobs/{job_id}", timeout=30).status_code != 404:
        assert time.monotonic() < deadline, "it was not archived"
        reconcile(unswept)
        time.sleep(0.5)
    assert httpx.get(instance).status_code == 404
    with BlobServiceClient.from_connection_string(unswept.storage_connection) as blobs:
        [blob] = blobs.get_container_client("lucius-archive").list_blobs()
        assert blob.name.endswith(f"/{job_id}.json")
        bundle = json.loads(blobs.get_blob_client("lucius-archive", blob.name).download_blob().readall())
    assert verify(bundle) == []
    with TableServiceClient.from_connection_string(unswept.storage_connection) as tables:
        for table, query in (("luciusledger", "PartitionKey eq @job"), ("luciusindex", "job_id eq @job")):
            assert list(tables.get_table_client(table).query_entities(query, parameters={"job": job_id})) == []
