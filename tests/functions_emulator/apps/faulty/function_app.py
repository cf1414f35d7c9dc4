"""One function that can be served, among many that cannot."""

import azure.durable_functions as df
import azure.functions as func

app = df.DFApp(http_auth_level=func.AuthLevel.ANONYMOUS)


@app.route("good")
async def good(req: func.HttpRequest) -> str:
    return "good"


@app.route("annotated")
async def union_annotation(req: func.HttpRequest | None) -> str:
    return "never"


@app.route("extra")
async def unbound_parameter(req: func.HttpRequest, other: str) -> str:
    return "never"


@app.timer_trigger(schedule="%NO_SUCH_SETTING%", arg_name="timer")
async def missing_setting(timer: func.TimerRequest) -> None: ...


@app.timer_trigger(schedule="every minute", arg_name="timer")
async def bad_schedule(timer: func.TimerRequest) -> None: ...


@app.service_bus_queue_trigger(arg_name="message", queue_name="q", connection="NO_SUCH_CONNECTION")
async def missing_connection(message: func.ServiceBusMessage) -> None: ...


@app.event_hub_message_trigger(arg_name="event", event_hub_name="hub", connection="X")
async def unknown_trigger(event: func.EventHubEvent) -> None: ...


@app.orchestration_trigger(context_name="ctx")
def wrong_context_name(ctx: df.DurableOrchestrationContext):
    yield


@app.route("blocking-client")
@app.durable_client_input(client_name="client")
def sync_client(req: func.HttpRequest, client: df.DurableOrchestrationClient) -> str:
    return "never"


@app.route("broken/{id:nope}")
async def bad_route(req: func.HttpRequest) -> str:
    return "never"


@app.route("GOOD")
async def same_route(req: func.HttpRequest) -> str:
    return "never"


@app.route("optional")
async def union_return(req: func.HttpRequest) -> func.HttpResponse | None:
    return None


@app.route("number")
async def wrong_return(req: func.HttpRequest) -> int:
    return 1


@app.timer_trigger(schedule="0 0 0 1 1 *", arg_name="timer")
async def wrong_parameter(timer: func.HttpRequest) -> None: ...


@app.route("unresolved")
async def unresolved(req: "NoSuchType") -> str:  # noqa: F821  # what the host must name
    return "never"


@app.function_name("good")
@app.route("another")
async def taken_name(req: func.HttpRequest) -> str:
    return "never"
