"""A document job, handwritten on Durable Functions: no ledger, tenants, retries or quotas.

`make bench-peers WORKER=external` measures this app and LUCIUS with the same host, bus, messages and worker.
"""

import asyncio
import json
import os
import time
from collections.abc import Generator
from datetime import timedelta
from typing import Any

import azure.durable_functions as df
import azure.functions as func
from azure.servicebus import ServiceBusMessage
from azure.servicebus.aio import ServiceBusClient

STEPS = ("ocr", "embedding", "sis")
ACK_S, RESULT_S, WAIT_S = 30, 900, 20

app = df.DFApp(http_auth_level=func.AuthLevel.ANONYMOUS)
#: a sender and a lock for each step, since the SDK's sender does not support concurrent use
_senders: dict[str, tuple[Any, asyncio.Lock]] = {}


@app.route("jobs", methods=["POST"])
@app.durable_client_input(client_name="client")
async def start(req: func.HttpRequest, client: df.DurableOrchestrationClient) -> func.HttpResponse:
    """Starts a job. Returns 200 with its result if it ends within 20 s, and 500 if it fails in this time. Otherwise
    returns 202 with the URL of its status.
    """
    instance, began = await client.start_new("job", client_input=req.get_json()), time.monotonic()
    while (waited := time.monotonic() - began) < WAIT_S:
        status = await client.get_status(instance)
        if status.runtime_status == df.OrchestrationRuntimeStatus.Completed:
            return func.HttpResponse(json.dumps(status.output), mimetype="application/json")
        if status.runtime_status == df.OrchestrationRuntimeStatus.Failed:
            return func.HttpResponse(str(status.output), status_code=500)
        await asyncio.sleep(min(1.0, max(0.01, waited / 4)))
    return client.create_check_status_response(req, instance)


@app.orchestration_trigger(context_name="context")
def job(context: df.DurableOrchestrationContext) -> Generator[Any, Any, Any]:
    """Runs a job: sends each step's directive, then waits for its ACK and its RESULT, each with a timer."""
    document, result = context.get_input(), None
    for step in STEPS:
        yield context.call_activity("send", {"job": context.instance_id, "step": step, "document": document})
        yield from _reply(context, f"{step} ACK", ACK_S)
        result = yield from _reply(context, f"{step} RESULT", RESULT_S)
    return result


def _reply(context: df.DurableOrchestrationContext, name: str, seconds: int) -> Generator[Any, Any, Any]:
    event = context.wait_for_external_event(name)
    timer = context.create_timer(context.current_utc_datetime + timedelta(seconds=seconds))
    if (yield context.task_any([event, timer])) is timer:
        raise TimeoutError(name)
    timer.cancel()
    return event.result


@app.activity_trigger(input_name="request")
async def send(request: dict) -> None:
    """Sends a step's directive to its service's queue."""
    job_id, step, document = request["job"], request["step"], request["document"]
    directive = {
        **{name: document[name] for name in ("tenant_id", "input_ref")},
        **{"jobId": job_id, "stepId": step, "attempt_no": 1, "lease_id": f"{job_id}/{step}"},
        **{
            "workspace_ref": {"uri": f"{document['output_ref']['uri']}/{job_id}/"},
            "payload": document["payload"][step],
        },
    }
    if step not in _senders:
        bus = ServiceBusClient.from_connection_string(os.environ["BUS"])
        _senders[step] = bus.get_queue_sender(f"handwritten-{step}"), asyncio.Lock()
    sender, alone = _senders[step]
    async with asyncio.timeout(30), alone:
        await sender.send_messages(ServiceBusMessage(json.dumps(directive), content_type="application/json"))


@app.service_bus_queue_trigger(arg_name="message", queue_name="handwritten-replies", connection="BUS")
@app.durable_client_input(client_name="client")
async def reply(message: func.ServiceBusMessage, client: df.DurableOrchestrationClient) -> None:
    """Raises the event that the job waits for."""
    body = json.loads(message.get_body())
    await client.raise_event(body["jobId"], f"{body['stepId']} {body['type']}", body.get("result_ref"))
