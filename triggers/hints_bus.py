"""The queue `lucius-hints`: writes public events of commits into their tenants' feeds (R71, R72).

A repeated hint writes nothing, and the sweeper replaces a lost hint.
"""

from __future__ import annotations

from typing import List  # noqa: UP035

import azure.durable_functions as df
import azure.functions as func

from shared import telemetry
from shared.core.events.hints import decode_hint
from shared.core.jobs.routing import HINTS_QUEUE
from shared.operations.events.feed_writer import write_feed
from shared.settings import SERVICEBUS_SETTING
from shared.time_limits import HINTS_S, limited
from shared.wiring import Wiring

FUNCTION = "tell"


def blueprint(wiring: Wiring) -> df.Blueprint:
    """Makes the blueprint of the function `tell`. With `LUCIUS_EVENTS=off`, the blueprint has no function."""
    bp = df.Blueprint()
    if wiring.settings.events == "off":
        return bp

    @bp.function_name(FUNCTION)
    @bp.service_bus_queue_trigger(
        arg_name="messages",
        queue_name=HINTS_QUEUE,
        connection=SERVICEBUS_SETTING,
        cardinality=func.Cardinality.MANY,
        # otherwise the host rewrites dates, and one message that is not JSON fails its whole batch (decision 20)
        data_type=func.DataType.BINARY,
    )
    @limited(HINTS_S)
    async def take_batch(messages: List[func.ServiceBusMessage]) -> None:  # noqa: UP006  # the worker refuses `list`
        found = [(message, decode_hint(message.get_body())) for message in messages]
        for message, hint in found:
            if hint is None:
                telemetry.warn("HINT_UNKNOWN", message_id=message.message_id)
        await write_feed(wiring.context(), [hint for _, hint in found if hint is not None])

    return bp
