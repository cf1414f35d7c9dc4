"""The quickstart of Durable Functions."""

import azure.durable_functions as df

bp = df.Blueprint()


@bp.route(route="orchestrators/{functionName}")
@bp.durable_client_input(client_name="client")
async def http_start(req, client):
    instance_id = await client.start_new(req.route_params.get("functionName"))
    return client.create_check_status_response(req, instance_id)


@bp.orchestration_trigger(context_name="context")
def hello_orchestrator(context):
    first = yield context.call_activity("hello", "Seattle")
    second = yield context.call_activity("hello", "Tokyo")
    return [first, second]


@bp.activity_trigger(input_name="city")
def hello(city: str):
    return "Hello " + city
