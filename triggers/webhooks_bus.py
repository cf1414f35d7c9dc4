"""The queue `lucius-webhooks`: sends events to webhooks (R85).

A message that arrives twice costs a read of its row, and the sweeper replaces a lost message.
"""

from __future__ import annotations

import azure.durable_functions as df
import azure.functions as func

from shared import telemetry
from shared.core.jobs.routing import WEBHOOKS_QUEUE
from shared.operations.webhooks.deliver_webhooks import deliver
from shared.ports.webhooks import decode_call
from shared.settings import SERVICEBUS_SETTING
from shared.time_limits import DELIVERY_S, limited
from shared.wiring import Wiring

FUNCTION = "deliver"


def blueprint(wiring: Wiring) -> df.Blueprint:
    """Makes the blueprint of the function `deliver`. Without events or keys to sign them, the blueprint has no
    function.
    """
    bp = df.Blueprint()
    if not wiring.settings.sends_webhooks:
        return bp

    @bp.function_name(FUNCTION)
    @bp.service_bus_queue_trigger(
        arg_name="message",
        queue_name=WEBHOOKS_QUEUE,
        connection=SERVICEBUS_SETTING,
        data_type=func.DataType.BINARY,
    )
    @limited(DELIVERY_S)
    async def take_call(message: func.ServiceBusMessage) -> None:
        call = decode_call(message.get_body())
        if call is None:
            telemetry.warn("DELIVERY_UNKNOWN", message_id=message.message_id)
            return
        await deliver(wiring.context(), call)

    return bp
