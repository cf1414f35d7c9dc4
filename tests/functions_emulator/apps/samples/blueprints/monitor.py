"""A monitor: calls a URL by durable HTTP until the response has the expected text, or time is up."""

from datetime import timedelta

import azure.durable_functions as df

monitors = df.Blueprint()


@monitors.orchestration_trigger(context_name="context")
def monitor(context: df.DurableOrchestrationContext):
    watched = context.get_input()
    deadline = context.current_utc_datetime + timedelta(seconds=watched["seconds"])
    looks = 0
    while context.current_utc_datetime < deadline:
        response = yield context.call_http("GET", watched["url"])
        looks += 1
        if watched["expected"] in response["content"]:
            return {"found": True, "status": response["statusCode"], "looks": looks}
        yield context.create_timer(context.current_utc_datetime + timedelta(seconds=0.2))
    return {"found": False, "looks": looks}
