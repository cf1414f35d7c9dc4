"""Writes the function app that is measured."""

from __future__ import annotations

from pathlib import Path

_HOST_JSON = '{"version": "2.0", "extensions": {"http": {"routePrefix": ""}, "serviceBus": {"maxConcurrentCalls": 16}}}'

_CODE = '''
from datetime import timedelta

import azure.durable_functions as df
import azure.functions as func

app = df.DFApp(http_auth_level=func.AuthLevel.ANONYMOUS)


@app.route("async")
async def hello(req: func.HttpRequest) -> str:
    return "hello"


@app.route("sync")
def hello_sync(req: func.HttpRequest) -> str:
    return "hello"


@app.activity_trigger(input_name="value")
async def send(value: int) -> int:
    return value


@app.orchestration_trigger(context_name="context")
def job(context: df.DurableOrchestrationContext):
    """As many steps as the input says; each an activity, then an event."""
    for step in range(context.get_input()):
        yield context.call_activity("send", step)
        yield context.wait_for_external_event(f"done:{step}")
    return "done"


@app.orchestration_trigger(context_name="context")
def patient(context: df.DurableOrchestrationContext):
    """Waits for an event or a day, whichever is first."""
    timer = context.create_timer(context.current_utc_datetime + timedelta(days=1))
    event = context.wait_for_external_event("go")
    yield context.task_any([event, timer])
    timer.cancel()
    return "done"
'''

_TRIGGER = """

@app.service_bus_queue_trigger(arg_name="message", queue_name="work", connection="BUS_CONNECTION")
async def take(message: func.ServiceBusMessage) -> None:
    global taken
    taken += 1


taken = 0


@app.route("taken")
async def count(req: func.HttpRequest) -> str:
    return str(taken)
"""


def write_app(folder: Path, *, with_bus: bool = False) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "host.json").write_text(_HOST_JSON)
    (folder / "function_app.py").write_text(_CODE + (_TRIGGER if with_bus else ""))
    return folder
