"""The features of the host: HTTP functions of all kinds, and one orchestration per durable feature."""

import asyncio
import json
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import azure.durable_functions as df
import azure.functions as func

app = df.DFApp(http_auth_level=func.AuthLevel.ANONYMOUS)


@app.route("echo/{word}/{number:int?}", methods=["POST"])
async def echo(req: func.HttpRequest, context: func.Context) -> func.HttpResponse:
    """Returns all that it got."""
    request = {
        "method": req.method,
        "url": req.url,
        "header": req.headers.get("X-Test"),
        "params": dict(req.params),
        "route": dict(req.route_params),
        "body": req.get_body().hex(),
        "function": context.function_name,
        "invocation": context.invocation_id,
    }
    return func.HttpResponse(json.dumps(request), mimetype="application/json", headers={"X-Answer": "yes"})


@app.route("sync")
def sync_hello(req: func.HttpRequest) -> str:
    return f"hello {req.params.get('name', 'nobody')}"


@app.route("binary", methods=["POST"])
def binary(req: func.HttpRequest) -> func.HttpResponse:
    return func.HttpResponse(req.get_body()[::-1], status_code=201, mimetype="application/octet-stream")


@app.route("nothing")
async def nothing(req: func.HttpRequest):
    return None


@app.route("boom")
async def boom(req: func.HttpRequest) -> str:
    raise RuntimeError("secret detail")


@app.route("sleep-async")
async def sleep_async(req: func.HttpRequest) -> str:
    await asyncio.sleep(float(req.params["s"]))
    return "slept"


@app.route("sleep-sync")
def sleep_sync(req: func.HttpRequest) -> str:
    time.sleep(float(req.params["s"]))
    return "slept"


@app.route("block-loop")
async def block_loop(req: func.HttpRequest) -> str:
    """Until the file `until` is there."""
    while not Path(req.params["until"]).exists():  # noqa: ASYNC240
        time.sleep(0.05)  # noqa: ASYNC251  # what the host must notice
    return "blocked"


@app.route("v1/things/{thingId}", methods=["GET"])
async def get_thing(req: func.HttpRequest) -> str:
    return f"get {req.route_params['thingId']}"


@app.route("v1/things/{thingId}:cancel", methods=["POST"])
async def cancel_thing(req: func.HttpRequest) -> str:
    return f"cancel {req.route_params['thingId']}"


@app.route("start/{name}", methods=["POST"])
@app.durable_client_input(client_name="client")
async def start(req: func.HttpRequest, client: df.DurableOrchestrationClient) -> func.HttpResponse:
    body = json.loads(req.get_body() or b"null")
    try:
        instance = await client.start_new(req.route_params["name"], req.params.get("id"), body)
    except Exception as error:
        return func.HttpResponse(str(error), status_code=409)
    return client.create_check_status_response(req, instance)


@app.route("start-late", methods=["POST"])
@app.durable_client_input(client_name="client")
async def start_late(req: func.HttpRequest, client: df.DurableOrchestrationClient) -> str:
    """Starts when the file `until` exists."""
    while not Path(req.params["until"]).exists():  # noqa: ASYNC110, ASYNC240  # another process makes it
        await asyncio.sleep(0.05)
    return await client.start_new("chain", "late", "x")


@app.route("raise/{id}/{event}", methods=["POST"])
@app.durable_client_input(client_name="client")
async def raise_event(req: func.HttpRequest, client: df.DurableOrchestrationClient) -> func.HttpResponse:
    try:
        await client.raise_event(req.route_params["id"], req.route_params["event"], json.loads(req.get_body()))
    except Exception as error:
        return func.HttpResponse(str(error), status_code=410)
    return func.HttpResponse(status_code=202)


@app.activity_trigger(input_name="word")
def shout(word: str) -> str:
    return word.upper()


@app.activity_trigger(input_name="word")
async def whisper(word: str, context: func.Context) -> dict:
    return {"word": word.lower(), "by": context.function_name}


@app.activity_trigger(input_name="plan")
def flaky(plan: dict) -> int:
    """Fails until its counter file has `plan["fails"]` lines."""
    path = Path(plan["file"])
    with path.open("a") as out:
        out.write("x\n")
    count = len(path.read_text().splitlines())
    if count <= plan["fails"]:
        raise ValueError(f"attempt {count}")
    return count


@app.activity_trigger(input_name="nothing")
def clock(nothing: None) -> list:
    """The app's own time, read in two ways."""
    return [datetime.now(UTC).isoformat(), time.time()]


@app.activity_trigger(input_name="seconds")
async def wait_a_bit(seconds: float) -> float:
    await asyncio.sleep(seconds)
    return seconds


@app.orchestration_trigger(context_name="context")
def chain(context: df.DurableOrchestrationContext):
    first = yield context.call_activity("shout", context.get_input())
    second = yield context.call_activity("whisper", first)
    context.set_custom_status({"step": 2})
    return [first, second]


@app.orchestration_trigger(context_name="context")
def fan_out(context: df.DurableOrchestrationContext):
    words = context.get_input()
    return (yield context.task_all([context.call_activity("shout", word) for word in words]))


@app.orchestration_trigger(context_name="context")
def retrying(context: df.DurableOrchestrationContext):
    options = df.RetryOptions(first_retry_interval_in_milliseconds=10, max_number_of_attempts=3)
    return (yield context.call_activity_with_retry("flaky", options, context.get_input()))


@app.orchestration_trigger(context_name="context")
def approval(context: df.DurableOrchestrationContext):
    """Waits for an event or a timer, whichever is first; input: seconds."""
    timer = context.create_timer(context.current_utc_datetime + timedelta(seconds=context.get_input()))
    event = context.wait_for_external_event("approve")
    winner = yield context.task_any([event, timer])
    if winner is event:
        timer.cancel()
        return event.result
    return "timed out"


@app.orchestration_trigger(context_name="context")
def sleeper(context: df.DurableOrchestrationContext):
    yield context.create_timer(context.current_utc_datetime + timedelta(seconds=context.get_input()))
    return "awake"


@app.orchestration_trigger(context_name="context")
def parent(context: df.DurableOrchestrationContext):
    words = context.get_input()
    children = [
        context.call_sub_orchestrator("chain", word, f"{context.instance_id}.{index}")
        for index, word in enumerate(words)
    ]
    return (yield context.task_all(children))


@app.orchestration_trigger(context_name="context")
def failing(context: df.DurableOrchestrationContext):
    yield context.call_activity("flaky", context.get_input())


@app.orchestration_trigger(context_name="context")
def countdown(context: df.DurableOrchestrationContext):
    """Continues as new until the count is zero."""
    left = context.get_input()
    context.set_custom_status({"left": left})
    yield context.call_activity("shout", str(left))
    if left > 0:
        context.continue_as_new(left - 1)
        return None
    return "lift-off"


@app.orchestration_trigger(context_name="context")
def steps(context: df.DurableOrchestrationContext):
    """A job of several steps, each with an activity, an event and a timer."""
    results = []
    for index in range(context.get_input()):
        sent = yield context.call_activity("shout", f"step-{index}")
        timer = context.create_timer(context.current_utc_datetime + timedelta(minutes=10))
        event = context.wait_for_external_event(f"done:{index}")
        yield context.task_any([event, timer])
        timer.cancel()
        results.append([sent, event.result])
    return results


@app.entity_trigger(context_name="context")
def total(context: df.DurableEntityContext) -> None:
    value = context.get_state(lambda: 0)
    if context.operation_name == "add":
        value += context.get_input()
        context.set_state(value)
    context.set_result(value)


@app.orchestration_trigger(context_name="context")
def tally(context: df.DurableOrchestrationContext):
    """Adds one by a call and one by a signal to the total of the input's name."""
    one = df.EntityId("total", context.get_input())
    yield context.call_entity(one, "add", 1)
    context.signal_entity(one, "add", 1)
    yield context.create_timer(context.current_utc_datetime + timedelta(seconds=0.2))
    return "counted"


@app.orchestration_trigger(context_name="context")
def hourly(context: df.DurableOrchestrationContext):
    """Reads the clock, sleeps an hour, and repeats; the input is the number of readings."""
    times = []
    for _ in range(context.get_input()):
        times.append((yield context.call_activity("clock", None)))
        yield context.create_timer(context.current_utc_datetime + timedelta(hours=1))
    return times
