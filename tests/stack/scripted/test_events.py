"""Public events on the real stack: hints over the bus, the function that receives them in batches, the feed's rows."""

from __future__ import annotations

import json
from typing import Any

import httpx
from azure.data.tables import TableServiceClient
from azure.servicebus import ServiceBusClient
from cloudevents.http import from_json

from tests.running_stack import RunningStack
from tests.stack.job_requests import status_is, submit, until
from tests.stack.scripted_service import TENANT, ScriptedService
from tests.waiting import wait_until


def feed(stack: RunningStack) -> list[dict[str, Any]]:
    """The tenant's whole feed."""
    table = TableServiceClient.from_connection_string(stack.settings["LUCIUS_TABLE_CONNECTION"]).get_table_client(
        "luciusfeed"
    )
    query = f"PartitionKey eq '{TENANT}' and RowKey ge 'E:' and RowKey lt 'E;'"
    return [json.loads(row["event"]) for row in table.query_entities(query)]


#: as it is sent by hand, with all defaults
SUBSCRIPTION = (
    '<entry xmlns="http://www.w3.org/2005/Atom"><content type="application/xml"><SubscriptionDescription '
    'xmlns="http://schemas.microsoft.com/netservices/2010/10/servicebus/connect"/></content></entry>'
)


def test_a_team_reads_the_topic(stack: RunningStack, service: ScriptedService) -> None:
    """By its own subscription: each event of a job as in the feed, in order."""
    made = httpx.put(
        f"{stack.settings['LUCIUS_SERVICEBUS_ADMIN_URL']}/lucius-events/subscriptions/team?api-version=2021-05",
        content=SUBSCRIPTION,
        headers={"Content-Type": "application/atom+xml"},
    )
    assert made.status_code == 201, made.text
    job_id = submit(stack)
    directive = service.directive(job_id)
    service.reply(directive, "ACK")
    service.reply(directive, "RESULT")
    until(stack, job_id, status_is("SUCCEEDED"))
    found: list[dict[str, Any]] = []

    def receive() -> bool:
        for message in receiver.receive_messages(max_message_count=50, max_wait_time=1):
            whole = json.loads(b"".join(message.body))
            assert (message.message_id, message.content_type) == (whole["id"], "application/cloudevents+json")
            found.extend([whole] if whole["subject"] == job_id else [])
            receiver.complete_message(message)
        return any(each["type"] == "job.completed" for each in found)

    client = ServiceBusClient.from_connection_string(stack.settings["LUCIUS_SERVICEBUS_CONNECTION"])
    with client, client.get_subscription_receiver("lucius-events", "team") as receiver:
        wait_until(receive, f"the end of {job_id} did not come")
    assert found == [each for each in feed(stack) if each["subject"] == job_id]


def test_jobs_are_in_the_feed(stack: RunningStack, service: ScriptedService) -> None:
    """Of two jobs each event once, in the job's order; the tenant's numbers have no gap."""
    jobs = [submit(stack), submit(stack)]
    for job_id in jobs:
        directive = service.directive(job_id)
        service.reply(directive, "ACK")
        service.reply(directive, "RESULT")
    for job_id in jobs:
        until(stack, job_id, status_is("SUCCEEDED"))

    def of(job_id: str) -> list[str]:
        return [each["type"] for each in feed(stack) if each["subject"] == job_id]

    whole = ["job.queued", "job.leased", "job.started", "job.step.completed", "job.completed"]
    for job_id in jobs:
        # a service that was quick overtook its ACK; the events are the same
        wait_until(lambda job_id=job_id: of(job_id) == whole, f"{job_id} is not whole in the feed")  # type: ignore[misc]
    events = feed(stack)
    assert [int(each["sequence"]) for each in events] == list(range(1, len(events) + 1))
    assert len({each["id"] for each in events}) == len(events)
    last = from_json(json.dumps(events[-1]))
    assert last["source"] == f"/lucius/local/{TENANT}"
    assert stack.http.get(f"/v1/schemas/events/{last['type']}").status_code == 200
