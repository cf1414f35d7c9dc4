"""The queue `lucius-admission`: calls to look at a tenant's admission state, when a gate opens by time or more may go
in, at a job that waited for others (R51), at a breaker that opened (R63), to allocate a gate over all tenants (R54),
and to work on a bulk (R65).

A call that comes twice costs one look; a lost one is made up by the sweeper.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import datetime

import azure.durable_functions as df
import azure.functions as func

from shared import telemetry
from shared.core.jobs.routing import ADMISSION_QUEUE
from shared.core.strict_json import parse_json
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
    """Makes the blueprint of one function."""
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
            # of a later release, or of an unknown sender: the sweeper checks every admission state
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
    """What a message asks for; neither tenant nor gate: it is no call."""

    #: a look at its admission state, or at one of its jobs or bulks
    tenant: str | None = None
    job_id: str | None = None
    bulk_id: str | None = None
    #: an allocation of the gate, for what happened at an instant; with a tenant, the incident of the gate's breaker
    gate_id: str | None = None
    since: datetime | None = None
    #: when a call to an admission state was due
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
