"""The queue `lucius-admission`. Each message is a call, which starts one of five actions.

A call checks a tenant's admission state when a quota opens by time or more jobs can start. Or the call checks a job
that waited for other jobs or was stored without a count (R51), or a breaker that opened (R63). Or the call allocates a
quota over all tenants (R54), or works on a bulk operation (R65). A repeated call costs one check, and the sweeper
replaces a lost call.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import datetime

import azure.durable_functions as df
import azure.functions as func

from shared import telemetry
from shared.core.jobs.routing import ADMISSION_QUEUE
from shared.core.records.strict_json import parse_json
from shared.operations.bulks.work_bulk import work_bulk
from shared.operations.gates.allocations import allocate_on_call
from shared.operations.gates.find_gate import find_platform_gate_by_id
from shared.operations.gates.freed import take_turn
from shared.operations.jobs.admission import notify
from shared.operations.jobs.places import reconcile_place
from shared.operations.quotas.breaker_incidents import answer_call
from shared.settings import SERVICEBUS_SETTING
from shared.time_limits import REPLY_S, limited
from shared.wiring import Wiring

FUNCTION = "admission"


def blueprint(wiring: Wiring) -> df.Blueprint:
    """Makes the blueprint of the function `admission`."""
    bp = df.Blueprint()

    @bp.function_name(FUNCTION)
    @bp.service_bus_queue_trigger(
        arg_name="message",
        queue_name=ADMISSION_QUEUE,
        connection=SERVICEBUS_SETTING,
        data_type=func.DataType.BINARY,
    )
    @bp.durable_client_input(client_name="client")
    @limited(REPLY_S)
    async def admission(message: func.ServiceBusMessage, client) -> None:  # type: ignore[no-untyped-def]
        call = called(message.get_body())
        context, orchestrations = await wiring.fresh_context(), wiring.orchestrations(client)
        if call.tenant is not None and call.gate_id is not None:
            await answer_call(context, call.tenant, call.gate_id)
        elif call.gate_id is not None and (gate := find_platform_gate_by_id(context, call.gate_id)) is not None:
            admissions = await allocate_on_call(context, gate, call.since or context.clock.now())
            await asyncio.gather(*(notify(context, orchestrations, *each) for each in admissions.items()))
        elif call.tenant is None:
            # sent by a later release or an unknown sender: the sweeper checks every admission state
            telemetry.warn("DESK_CALL_UNKNOWN", message_id=message.message_id)
        elif call.bulk_id is not None:
            await work_bulk(context, orchestrations, call.tenant, call.bulk_id)
        elif call.job_id is None:
            await notify(
                context, orchestrations, call.tenant, await take_turn(context, call.tenant, due_at=call.due_at)
            )
        elif (stored := await context.ledger.read(call.job_id)) is not None:
            await reconcile_place(context, orchestrations, stored)

    return bp


@dataclass(frozen=True)
class Call:
    """A decoded message. A call has a tenant, a quota, or both. An invalid message becomes a call with neither."""

    #: tenant whose admission state, job or bulk operation must be checked
    tenant: str | None = None
    job_id: str | None = None
    bulk_id: str | None = None
    #: without a tenant: the quota over all tenants to allocate; with a tenant: the quota whose breaker needs an
    #: incident
    gate_id: str | None = None
    #: time of the event that needs the allocation
    since: datetime | None = None
    #: due time of a call to an admission state
    due_at: datetime | None = None


def called(body: bytes) -> Call:
    try:
        members = parse_json(body)
    except ValueError:
        return Call()
    if not isinstance(members, dict):
        return Call()
    texts = {name: value for name, value in members.items() if isinstance(value, str) and value}
    return Call(
        tenant=texts.get("tenant"),
        job_id=texts.get("job_id"),
        bulk_id=texts.get("bulk"),
        gate_id=texts.get("gate"),
        since=_instant(texts.get("since", "")),
        due_at=_instant(texts.get("due_at", "")),
    )


def _instant(text: str) -> datetime | None:
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        return None
    return instant if instant.tzinfo is not None else None
