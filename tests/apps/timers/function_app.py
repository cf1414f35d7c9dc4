"""Timer triggers that write down when they ran."""

import json
import os

import azure.functions as func

app = func.FunctionApp()


def note(name: str, timer: func.TimerRequest) -> None:
    with open(os.environ["SEEN_FILE"], "a") as out:
        out.write(json.dumps([name, timer.past_due, timer.schedule_status]) + "\n")


@app.timer_trigger(schedule="*/1 * * * * *", arg_name="timer")
async def every_second(timer: func.TimerRequest) -> None:
    note("every_second", timer)


@app.timer_trigger(schedule="%HOURLY%", arg_name="timer", run_on_startup=True)
def at_startup(timer: func.TimerRequest) -> None:
    note("at_startup", timer)
