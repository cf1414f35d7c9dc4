"""Functions behind keys, limits, CORS and settings."""

import asyncio
import os
from pathlib import Path

import azure.durable_functions as df
import azure.functions as func

app = df.DFApp(http_auth_level=func.AuthLevel.FUNCTION)


@app.route("open", auth_level=func.AuthLevel.ANONYMOUS)
async def open_to_all(req: func.HttpRequest) -> str:
    return "open"


@app.route("locked")
async def locked(req: func.HttpRequest) -> str:
    return "locked"


@app.route("masters", auth_level=func.AuthLevel.ADMIN)
async def masters(req: func.HttpRequest) -> str:
    return "masters"


@app.route("settings", auth_level=func.AuthLevel.ANONYMOUS)
async def settings(req: func.HttpRequest) -> str:
    return f"{os.environ['FROM_FILE']} {os.environ['FROM_BOTH']}"


@app.route("slow", auth_level=func.AuthLevel.ANONYMOUS)
async def slow(req: func.HttpRequest) -> str:
    """Responds when the file `until` is there."""
    while not Path(req.params["until"]).exists():  # noqa: ASYNC110, ASYNC240  # another process makes it
        await asyncio.sleep(0.05)
    return "slow"


@app.route("wrong", auth_level=func.AuthLevel.ANONYMOUS)
async def wrong(req: func.HttpRequest):
    return {"a": "dict is no answer"}


@app.route("begin", auth_level=func.AuthLevel.ANONYMOUS)
@app.durable_client_input(client_name="client")
async def begin(req: func.HttpRequest, client: df.DurableOrchestrationClient) -> func.HttpResponse:
    return client.create_check_status_response(req, await client.start_new("nothing"))


@app.orchestration_trigger(context_name="context")
def nothing(context: df.DurableOrchestrationContext):
    return "nothing"


@app.timer_trigger(schedule="0 0 0 1 1 *", arg_name="timer")
async def by_hand(timer: func.TimerRequest) -> None:
    await asyncio.sleep(0)
    with open(os.environ["SEEN_FILE"], "a") as out:  # noqa: ASYNC230  # one line
        out.write("ran\n")
