"""A monitor: looks at a URL by durable HTTP now and then until it says what it should, or time is up."""

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
        if watched["wanted"] in response["content"]:
            return {"found": True, "status": response["statusCode"], "looks": looks}
        yield context.create_timer(context.current_utc_datetime + timedelta(seconds=0.2))
    return {"found": False, "looks": looks}
