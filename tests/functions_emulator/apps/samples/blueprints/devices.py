"""Sub-orchestrations with retries: devices are set up in parallel; a failed set-up is repeated as a whole."""

from pathlib import Path

import azure.durable_functions as df

devices = df.Blueprint()


@devices.activity_trigger(input_name="device")
def install(device: dict) -> str:
    """Fails `device["fails"]` times."""
    tries = Path(device["log"])
    with tries.open("a") as log:
        log.write(f"{device['name']}\n")
    count = tries.read_text().split().count(device["name"])
    if count <= device["fails"]:
        raise ConnectionError(f"{device['name']} does not answer")
    return f"{device['name']} after {count}"


@devices.orchestration_trigger(context_name="context")
def set_up_device(context: df.DurableOrchestrationContext):
    return (yield context.call_activity("install", context.get_input()))


@devices.orchestration_trigger(context_name="context")
def set_up_all(context: df.DurableOrchestrationContext):
    options = df.RetryOptions(first_retry_interval_in_milliseconds=50, max_number_of_attempts=3)
    calls = [
        context.call_sub_orchestrator_with_retry("set_up_device", options, device) for device in context.get_input()
    ]
    return (yield context.task_all(calls))
