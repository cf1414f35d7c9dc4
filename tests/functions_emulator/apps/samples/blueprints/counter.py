"""A counter entity and the functions that use it."""

import json

import azure.durable_functions as df
import azure.functions as func

counters = df.Blueprint()


@counters.entity_trigger(context_name="context", entity_name="Counter")
def counter(context: df.DurableEntityContext) -> None:
    value = context.get_state(lambda: 0)
    match context.operation_name:
        case "add":
            value += context.get_input()
            context.set_state(value)
            context.set_result(value)
        case "get":
            context.set_result(value)
        case "reset":
            context.destruct_on_exit()
        case other:
            raise ValueError(f"a counter does not {other}")


@counters.orchestration_trigger(context_name="context")
def count_twice(context: df.DurableOrchestrationContext):
    one = df.EntityId("Counter", context.get_input())
    context.signal_entity(one, "add", 1)
    first = yield context.call_entity(one, "add", 10)
    try:
        yield context.call_entity(one, "dance")
    except Exception as error:
        return [first, str(error)]


@counters.route("counters/{key}/{operation}", methods=["POST"])
@counters.durable_client_input(client_name="client")
async def change(req: func.HttpRequest, client: df.DurableOrchestrationClient) -> func.HttpResponse:
    one = df.EntityId("Counter", req.route_params["key"])
    await client.signal_entity(one, req.route_params["operation"], json.loads(req.get_body() or b"null"))
    return func.HttpResponse(status_code=202)


@counters.route("counters/{key}", methods=["GET"])
@counters.durable_client_input(client_name="client")
async def read(req: func.HttpRequest, client: df.DurableOrchestrationClient) -> func.HttpResponse:
    entity = await client.read_entity_state(df.EntityId("Counter", req.route_params["key"]))
    if not entity.entity_exists:
        return func.HttpResponse(status_code=404)
    return func.HttpResponse(json.dumps(entity.entity_state), mimetype="application/json")
