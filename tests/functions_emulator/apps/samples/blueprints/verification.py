"""Human interaction: a code is sent to a phone, and a person has three attempts and little time to enter it."""

import json
from datetime import timedelta
from pathlib import Path

import azure.durable_functions as df

verifications = df.Blueprint()

TRIES = 3


@verifications.activity_trigger(input_name="phone")
def send_code(phone: dict) -> int:
    """Writes the message to the phone as a line of a file."""
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
        # Each attempt has its own event name and timer: shared ones would lose events or never end.
        answer = context.wait_for_external_event(f"answer-{number}")
        timer = context.create_timer(deadline)
        winner = yield context.task_any([answer, timer])
        if winner is timer:
            return "too late"
        timer.cancel()
        if int(answer.result) == code:
            return "verified"
    return "too many tries"
