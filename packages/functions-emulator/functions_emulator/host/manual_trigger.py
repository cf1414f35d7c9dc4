"""Trigger values for functions that are run manually, by `POST /admin/functions/{name}`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from azure.functions.timer import TimerRequest

from functions_emulator.host.admin import ManualTrigger
from functions_emulator.host.functions import Function


async def _timer(function: Function, text: str) -> Any:
    return TimerRequest(past_due=False, schedule_status={}, schedule={"AdjustForDST": True})


async def _service_bus(function: Function, text: str) -> Any:
    from azure.functions.servicebus import ServiceBusMessage

    message = ServiceBusMessage(
        body=text.encode(), message_id="", application_properties={}, user_properties={}, delivery_count=1
    )
    return [message] if function.trigger.fields.get("cardinality") == "many" else message


async def _queue(function: Function, text: str) -> Any:
    from azure.functions.queue import QueueMessage

    return QueueMessage(id="", body=text, dequeue_count=1)  # type: ignore[no-untyped-call]  # the SDK's


async def _blob(function: Function, text: str) -> Any:
    from azure.functions.blob import InputStream

    return InputStream(data=text.encode(), name=str(function.trigger.fields.get("path", "")))


async def _http(function: Function, text: str) -> Any:
    from azure.functions.http import HttpRequest

    methods = [str(method).upper() for method in function.trigger.fields.get("methods") or ["POST"]]
    return HttpRequest(
        method=methods[0],
        url=f"/admin/functions/{function.name}",
        headers={"content-type": "application/json"},
        params={},
        route_params={},
        body_type="bytes",
        body=text.encode(),
    )


async def _activity(function: Function, text: str) -> Any:
    from azure.functions.durable_functions import ActivityTriggerConverter
    from azure.functions.meta import Datum

    return ActivityTriggerConverter.decode(Datum(text, "string"), trigger_metadata={})


MANUAL_TRIGGERS: Mapping[str, ManualTrigger] = {
    "timerTrigger": _timer,
    "serviceBusTrigger": _service_bus,
    "queueTrigger": _queue,
    "blobTrigger": _blob,
    "httpTrigger": _http,
    "activityTrigger": _activity,
}
