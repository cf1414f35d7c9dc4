"""Human interaction: a code is sent to a phone, and somebody has three tries and little time to type it in."""

import json
from datetime import timedelta
from pathlib import Path

import azure.durable_functions as df

verifications = df.Blueprint()

TRIES = 3


@verifications.activity_trigger(input_name="phone")
def send_code(phone: dict) -> int:
    """A message of ours is a line in a file."""
    code = 4711
    with Path(phone["inbox"]).open("a") as inbox:
        inbox.write(json.dumps({"to": phone["number"], "code": code}) + "\n")
    return code


@verifications.orchestration_trigger(context_name="context")
def verify_phone(context: df.DurableOrchestrationContext):
    phone = context.get_input()
    code = yield context.call_activity("send_code", phone)
    deadline = context.current_utc_datetime + timedelta(seconds=phone["seconds"])
    for number in range(TRIES):
        # an event name and a timer of its own for each try: a shared one would lose events or never end
        answer = context.wait_for_external_event(f"answer-{number}")
        timer = context.create_timer(deadline)
        winner = yield context.task_any([answer, timer])
        if winner is timer:
            return "too late"
        timer.cancel()
        if int(answer.result) == code:
            return "verified"
    return "too many tries"
