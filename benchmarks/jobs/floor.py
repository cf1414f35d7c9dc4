"""The floor of a 3-step job: the CPU of the same number of messages, table requests and episodes, without LUCIUS.

- bus: three messages of a directive's size and six of a reply's, each sent, received and completed by Microsoft's SDK
- tables: the entity-group transactions and rows that a job writes, and one query, over one connection
- durable: an orchestrator of ten episodes with three activities, that only yields, in the emulated host

The CPU time is that of the emulators that a job uses, and of their client. Calls to the bus and to tables follow one
another.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

from azure.servicebus import ServiceBusMessage
from azure.servicebus.aio import ServiceBusClient

from benchmarks.host.__main__ import durable
from benchmarks.host.app import write_app
from benchmarks.jobs.stack import Stack, cpu_seconds, running
from benchmarks.scale.job import DIRECTIVE_BYTES, REPLY_BYTES, Job
from emulator.up.environment import _ACCOUNT_KEY, ACCOUNT
from shared.adapters.tables.account import TablesAccount

_JOB = Job(3)
_REPLIES = 2 * _JOB.steps
_ROW_TEXT = "x" * 700

_ORCHESTRATOR = '''
import azure.durable_functions as df

app = df.DFApp()


@app.activity_trigger(input_name="value")
async def send(value: int) -> int:
    return value


@app.orchestration_trigger(context_name="context")
def job(context: df.DurableOrchestrationContext):
    """Each step an activity, an ACK and a RESULT."""
    for step in range(context.get_input()):
        yield context.call_activity("send", step)
        yield context.wait_for_external_event(f"ack:{step}")
        yield context.wait_for_external_event(f"done:{step}")
    return "done"
'''


async def floor(jobs: int) -> dict[str, Any]:
    """Returns the CPU-ms per job by kind of work."""
    with running() as stack:
        bus = await _used(stack, ("bus",), _bus(stack, jobs)) / jobs
        tables = await _used(stack, ("azurite",), _tables(stack, jobs)) / jobs
    return {"jobs": jobs, "cpu_ms_per_job": {"bus": bus, "tables": tables, "durable": _durable(jobs)}}


async def _used(stack: Stack, servers: tuple[str, ...], work: Any) -> float:
    """Returns the CPU-ms of these servers and of this process during `work`."""

    def now() -> float:
        pids = stack.processes()
        return time.process_time() + cpu_seconds(pids[name] for name in servers)

    before = now()
    await work
    return (now() - before) * 1000


async def _bus(stack: Stack, jobs: int) -> None:
    bodies = ["d" * DIRECTIVE_BYTES] * _JOB.steps + ["r" * REPLY_BYTES] * _REPLIES
    async with ServiceBusClient.from_connection_string(stack.connection, socket_timeout=2.0) as client:
        async with client.get_topic_sender("global-bus-p0") as sender:
            async with client.get_subscription_receiver("global-bus-p0", "ocr") as receiver:
                for number in range(jobs):
                    for place, body in enumerate(bodies):
                        message = ServiceBusMessage(body, message_id=f"{number}/{place}")
                        message.application_properties = {"step_type": "OCR"}
                        await sender.send_messages(message)
                        [received] = await receiver.receive_messages(max_message_count=1, max_wait_time=60)
                        await receiver.complete_message(received)


async def _tables(stack: Stack, jobs: int) -> None:
    connection = f"AccountName={ACCOUNT};AccountKey={_ACCOUNT_KEY};TableEndpoint={stack.tables_url}"
    account = TablesAccount.connect(connection=connection, endpoint=None, credential=None, version_table="floorversion")
    try:
        table = await account.table("floor")
        for number in range(jobs):
            written = 0
            for request in range(1, _JOB.table_writes + 1):
                rows = range(written, _JOB.entities_written * request // _JOB.table_writes)
                written = rows.stop
                await table.submit_transaction(
                    [
                        ("create", {"PartitionKey": f"{number}", "RowKey": f"{row:03d}", "text": _ROW_TEXT})
                        for row in rows
                    ]
                )
            asked = table.query_entities("PartitionKey eq @key and RowKey lt '001'", parameters={"key": f"{number}"})
            assert len([row async for row in asked]) == 1
    finally:
        await account.close()


def _durable(jobs: int) -> float:
    with tempfile.TemporaryDirectory() as name:
        app = write_app(Path(name) / "app")
        (app / "function_app.py").write_text(_ORCHESTRATOR)
        return float(durable(app, Path(name) / "data", "run", jobs, _JOB.steps)["cpu_ms"]) * _JOB.episodes
