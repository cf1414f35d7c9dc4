"""Work that only a sweep does: replies that the bus dead-lettered while no host was there, and jobs that ended long
ago.
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime

from azure.data.tables import TableServiceClient
from azure.servicebus import ServiceBusClient, ServiceBusReceiver
from azure.storage.blob import BlobServiceClient

from shared.adapters.tables.keys import ended_row
from tests.audit_bundles import faults
from tests.lucius_client.cli.command import stdout_of
from tests.running_stack import RunningStack
from tests.stack.job_requests import (
    connections,
    events,
    job,
    replies_on_the_lane,
    status_is,
    submit,
    until,
    without_the_host,
)
from tests.stack.scripted_service import LANE, TENANT, ScriptedService
from tests.waiting import wait_until

MAX_DELIVERIES = 10


def spoil(receiver: ServiceBusReceiver, how: str) -> None:
    """Abandons or dead-letters the next reply, like a broken host."""
    for _ in range(MAX_DELIVERIES if how == "abandon" else 1):
        [message] = receiver.receive_messages(max_message_count=1, max_wait_time=60)
        if how == "abandon":
            receiver.abandon_message(message)
        else:
            receiver.dead_letter_message(message, reason="Broken", error_description="a host that cannot read")


def dead_letters(stack: RunningStack) -> int:
    return replies_on_the_lane(stack)["dead_letter"]


def reconcile(stack: RunningStack, *, dry_run: bool = False) -> int:
    answer = stack.http.post("/v1/admin/reconcile", json={"dryRun": dry_run}).raise_for_status()
    return int(answer.json()["dead_replies"])


def test_dead_results_complete_their_jobs_at_the_next_sweep(stack: RunningStack) -> None:
    """RESULTs that were abandoned too often or dead-lettered: the jobs end. Rubbish is quarantined, the queue empty."""
    jobs: dict[str, str] = {}
    with (
        ScriptedService(stack.bus_connection) as service,
        ServiceBusClient.from_connection_string(stack.bus_connection) as client,
        client.get_subscription_receiver(f"global-bus-replies-p{LANE}", "lucius-invoker") as receiver,
    ):
        directives = {}
        for how in ("abandon", "dead-letter"):
            jobs[how] = submit(stack)
            directives[how] = service.directive(jobs[how])
            service.reply(directives[how], "ACK")
        for job_id in jobs.values():
            until(stack, job_id, status_is("IN_PROGRESS"))
        with without_the_host(stack, connected=3):
            for how, directive in directives.items():
                service.reply(directive, "RESULT")
                service.send(f"rubbish to {how}")
                spoil(receiver, how)
                spoil(receiver, how)
    assert dead_letters(stack) == 4
    assert reconcile(stack, dry_run=True) == 4
    assert dead_letters(stack) == 4
    assert [job(stack, job_id)["status"] for job_id in jobs.values()] == ["IN_PROGRESS"] * 2
    assert reconcile(stack) == 4
    for job_id in jobs.values():
        assert until(stack, job_id, status_is("SUCCEEDED"))["attempts_total"] == 1
        assert events(stack, job_id)[-1] == "RESULT"
    assert dead_letters(stack) == 0
    rejected = stack.get("/v1/rejected")["rejected"]
    for why in ("MaxDeliveryCountExceeded", "Broken"):
        assert [one["reason"] for one in rejected if f"(dead-lettered: {why}" in one["detail"]] == ["NOT_JSON"]


def test_a_sweep_of_empty_lanes_leaves_no_connection(stack: RunningStack) -> None:
    """Looking at sixteen dead-letter queues opens links, and closes each of them again."""

    def leaves_none() -> bool:
        """Checks that nothing is left; repeats the check once, since messages of an earlier test can arrive late."""
        before = connections(stack)
        assert reconcile(stack) == 0
        try:
            wait_until(lambda: connections(stack) <= before, "a link of the sweep stayed open", deadline_s=10)
        except AssertionError:
            return False
        return True

    wait_until(leaves_none, "a link of each sweep stayed open")


def make_due(stack: RunningStack, job_id: str) -> None:
    """Makes the row due, as if the hour after its end, or after the last check, were over."""
    with TableServiceClient.from_connection_string(stack.storage_connection) as tables:
        index = tables.get_table_client("luciusindex")
        for row in list(
            index.query_entities(
                "RowKey gt 'ENDED:' and RowKey lt 'ENDED;' and job_id eq @job", parameters={"job": job_id}
            )
        ):
            index.delete_entity(row["PartitionKey"], row["RowKey"])
            past = datetime(2026, 1, 1, tzinfo=UTC)
            index.create_entity({**row, "RowKey": ended_row(past, job_id), "clear_at": past})


def test_a_job_long_ended_is_purged_and_archived(stack: RunningStack) -> None:
    """Its history is deleted by its id, its bundle is in the archive, its rows are deleted; the bundle verifies."""
    with ScriptedService(stack.bus_connection) as service:
        job_id = submit(stack)
        service.reply(service.directive(job_id), "RESULT")
    until(stack, job_id, status_is("SUCCEEDED"))
    instance = f"/runtime/webhooks/durabletask/instances/{job_id}"
    wait_until(lambda: stack.get(instance)["runtimeStatus"] == "Completed", "the orchestration did not end")

    def archived() -> bool:
        # a check of a job that its feed lacks postpones it
        make_due(stack, job_id)
        reconcile(stack)
        return stack.http.get(f"/v1/jobs/{job_id}").json()["archived_at"] is not None

    wait_until(archived, "it was not archived", poll_s=0.5)
    listed = stdout_of(stack, "job", "list", "--archived", "--tenant", TENANT, "--output", "ids")
    assert job_id in listed.split()
    words = ("--tenant", TENANT, "--filter", "archived=true", "--reason", "a new release", "--dry-run", "--json")
    assert json.loads(stdout_of(stack, "bulk", "replay", *words))["matched"] >= 1
    assert stack.http.get(instance).status_code == 404
    with BlobServiceClient.from_connection_string(stack.storage_connection) as blobs:
        names = list(blobs.get_container_client("lucius-archive").list_blob_names())
        # jobs of other tests on this stack may be archived too
        [name] = [each for each in names if re.search(rf"/{job_id}\.[0-9a-f]{{16}}\.json$", each)]
        bundle = json.loads(blobs.get_blob_client("lucius-archive", name).download_blob().readall())
    assert faults(bundle) == []
    with TableServiceClient.from_connection_string(stack.storage_connection) as tables:
        for table, query in (("luciusledger", "PartitionKey eq @job"), ("luciusindex", "job_id eq @job")):
            left = tables.get_table_client(table).query_entities(query, parameters={"job": job_id})
            assert {each["RowKey"].partition(":")[0] for each in left} <= {"ARCHIVED"}
