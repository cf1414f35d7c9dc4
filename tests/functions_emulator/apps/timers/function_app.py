"""Timer triggers that write each run to the file `SEEN_FILE`."""

import json
import os

import azure.functions as func

app = func.FunctionApp()


def note(name: str, timer: func.TimerRequest) -> None:
    with open(os.environ["SEEN_FILE"], "a") as out:
        out.write(json.dumps([name, timer.past_due, timer.schedule_status]) + "\n")


@app.timer_trigger(schedule="*/1 * * * * *", arg_name="timer", use_monitor=True)
async def every_second(timer: func.TimerRequest) -> None:
    note("every_second", timer)


@app.timer_trigger(schedule="*/1 * * * * *", arg_name="timer")
async def not_monitored(timer: func.TimerRequest) -> None:
    note("not_monitored", timer)


@app.timer_trigger(schedule="%HOURLY%", arg_name="timer", run_on_startup=True)
def at_startup(timer: func.TimerRequest) -> None:
    note("at_startup", timer)


@app.timer_trigger(schedule="0 0 0 1 1 *", arg_name="timer", run_on_startup=True)
@app.retry(strategy="fixed_delay", max_retry_count="2", delay_interval="00:00:00.1")
async def retried(timer: func.TimerRequest, context: func.Context) -> None:
    retry = context.retry_context
    with open(os.environ["SEEN_FILE"], "a") as out:  # noqa: ASYNC230  # one line
        out.write(json.dumps(["retried", False, [retry.retry_count, retry.max_retry_count]]) + "\n")
    raise ValueError("again")
