"""An app in the style of templates: plain types, sync functions, prints, a blueprint for Durable Functions."""

import json
import logging

import azure.functions as func
from orchestrations_blueprint import bp
from shared_code.greeting import greet

app = func.FunctionApp()
app.register_functions(bp)

print("printed while loading")


@app.function_name(name="HttpTrigger1")
@app.route(route="hello", auth_level=func.AuthLevel.ANONYMOUS)
def test_function(req: func.HttpRequest, context: func.Context) -> func.HttpResponse:
    logging.info("Python HTTP trigger function processed a request %s.", context.invocation_id)
    print("printed while running")
    name = req.params.get("name")
    if not name:
        try:
            name = req.get_json().get("name")
        except ValueError:
            return func.HttpResponse("Pass a name in the query string or in the request body.", status_code=200)
    return func.HttpResponse(greet(name))


@app.route()
def without_a_route(req):
    return func.HttpResponse("cookie", headers={"Set-Cookie": "a=b"})


@app.route(route="off")
def SwitchedOff(req: func.HttpRequest) -> str:
    return "never"


@app.generic_trigger(arg_name="req", type="httpTrigger", route="generic", authLevel="anonymous")
@app.generic_output_binding(arg_name="$return", type="http")
def generic(req):
    return "generic"


@app.route(route="form", methods=["POST"])
def form(req: func.HttpRequest) -> str:
    return json.dumps({"form": dict(req.form), "files": {name: file.filename for name, file in req.files.items()}})


@app.schedule(schedule="%SCHEDULE%", arg_name="mytimer", run_on_startup=True, use_monitor=False)
def tick(mytimer: func.TimerRequest) -> None:
    logging.info("Python timer trigger function ran, late: %s", mytimer.past_due)


@app.timer_trigger(schedule="0 0 0 1 1 *", arg_name="timer")
def returns_into_nothing(timer: func.TimerRequest):
    return "there is no output for this"
