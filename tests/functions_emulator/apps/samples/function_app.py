"""Common durable patterns that `tour` does not have: entities, durable HTTP, blueprints, waiting for the end."""

import asyncio
import logging

import azure.durable_functions as df
import azure.functions as func
from blueprints.backup import backups
from blueprints.counter import counters
from blueprints.devices import devices
from blueprints.monitor import monitors
from blueprints.verification import verifications

app = df.DFApp(http_auth_level=func.AuthLevel.ANONYMOUS)
for blueprint in (backups, counters, devices, monitors, verifications):
    app.register_functions(blueprint)

traffic_light = {"colour": "red"}


@app.route("light/{colour?}")
async def light(req: func.HttpRequest) -> str:
    traffic_light["colour"] = req.route_params.get("colour", traffic_light["colour"])
    logging.getLogger("lights").info("the light is %s", traffic_light["colour"])
    logging.getLogger("azure.core").info("an SDK asks for %s", traffic_light["colour"])
    return traffic_light["colour"]


@app.route("run/{name}", methods=["POST"])
@app.durable_client_input(client_name="client")
async def run_and_wait(req: func.HttpRequest, client: df.DurableOrchestrationClient) -> func.HttpResponse:
    """The response is the output if the orchestration ends within 1.5 s."""
    instance_id = await client.start_new(req.route_params["name"], client_input=req.get_json())
    return await client.wait_for_completion_or_create_check_status_response(req, instance_id, 1500, 100)


@app.route("hang")
async def hang(req: func.HttpRequest) -> str:
    logging.info("hang begins")
    await asyncio.sleep(60)
    return "never"


@app.route("wait-for-bytes/{port}/{seconds?}")
async def wait_for_bytes(req: func.HttpRequest) -> str:
    """Waits for a peer that sends nothing, as long as `seconds` allow; without them nothing holds its task."""
    seconds = req.route_params.get("seconds")
    try:
        async with asyncio.timeout(float(seconds) if seconds else None):
            reader, _ = await asyncio.open_connection("127.0.0.1", int(req.route_params["port"]))
            await reader.read(1)
    except TimeoutError:
        return "timed out"
    return "read"


@app.route("cancelled")
async def cancelled(req: func.HttpRequest) -> str:
    raise asyncio.CancelledError
