"""The queue `lucius-admission`: calls to look at a tenant's desk, when a gate opens by time or more may go in, and at a
job that waited for others (R51); and to work on a bulk (R65).

A call that comes twice costs one look; a lost one is made up by the sweeper.
"""

from __future__ import annotations

import azure.durable_functions as df
import azure.functions as func

from shared import telemetry
from shared.core.routing import ADMISSION_QUEUE
from shared.core.strict_json import parse_json
from shared.operations.desks import let_in
from shared.operations.places import follow
from shared.operations.transition import notify
from shared.operations.work_bulk import work_bulk
from shared.settings import SERVICEBUS_SETTING
from shared.time_limits import REPLY_S, limited
from shared.wiring import Wiring

FUNCTION = "admission"


def blueprint(wiring: Wiring) -> df.Blueprint:
    """One function."""
    bp = df.Blueprint()

    @bp.function_name(FUNCTION)
    @bp.service_bus_queue_trigger(arg_name="message", queue_name=ADMISSION_QUEUE, connection=SERVICEBUS_SETTING)
    @bp.durable_client_input(client_name="client")
    @limited(REPLY_S)
    async def admission(message: func.ServiceBusMessage, client) -> None:  # type: ignore[no-untyped-def]
        tenant, job_id, bulk_id = called(message.get_body())
        if tenant is None:
            # of a later release, or of nobody: the sweeper looks at every desk
            telemetry.warn("DESK_CALL_UNKNOWN", message_id=message.message_id)
            return
        context, orchestrations = await wiring.fresh_context(), wiring.orchestrations(client)
        if bulk_id is not None:
            await work_bulk(context, orchestrations, tenant, bulk_id)
        elif job_id is None:
            await notify(context, orchestrations, tenant, await let_in(context, tenant))
        elif (stored := await context.ledger.read(job_id)) is not None:
            await follow(context, orchestrations, stored)

    return bp


def called(body: bytes) -> tuple[str | None, str | None, str | None]:
    """Whose desk, and which job or bulk if it is about one; no tenant: the message is no call."""
    try:
        call = parse_json(body)
    except ValueError:
        return None, None, None
    named = [call.get(name) for name in ("tenant", "job_id", "bulk")] if isinstance(call, dict) else [None] * 3
    tenant, job_id, bulk_id = (each if isinstance(each, str) and each else None for each in named)
    return tenant, job_id, bulk_id
