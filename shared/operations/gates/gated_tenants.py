"""Which tenants stand in the directory of those that have gates: as long as their admission states have something to
say (R48).
"""

from __future__ import annotations

from shared.core.events.public_log_events import feed_of
from shared.core.gates import changes
from shared.core.gates.admission_state import AdmissionState
from shared.core.gates.rules import EVERY
from shared.operations.context import Context


async def enter_tenant(context: Context, tenant: str) -> None:
    """The tenant has gates of its own from now on; again is harmless. Raises LedgerUnavailable."""
    if tenant != EVERY:
        await context.admissions.enter_tenant(tenant, context.clock.now())
        context.process.gate_directory.forget()


async def remove_unused_tenant(context: Context, admission: AdmissionState) -> None:
    """The tenant leaves the directory where nothing is set, nobody waits and its feed has every log (Race last-rule).

    Whoever sets something enters the tenant before its write and again after it; whoever takes the entry away looks
    again: one of the two comes last, and sees the other's. Raises LedgerUnavailable.
    """
    tenant = admission.tenant
    if tenant == EVERY:
        return
    if not is_in_use(context, admission):
        await context.admissions.remove_tenant(tenant)
        stored = await context.admissions.read(tenant)
        if stored is None or not is_in_use(context, stored.admission):
            context.process.gate_directory.forget()
            return
    await enter_tenant(context, tenant)


def is_in_use(context: Context, admission: AdmissionState) -> bool:
    """Whether the tenant has to stay: also while nobody knows that its feed has the logs of its gates (R79)."""
    if changes.is_in_use(admission, context.clock.now()):
        return True
    if context.events is None:
        return False
    feed, logs = feed_of(admission.tenant), context.events.compared_logs
    return not all(logs.has(feed, id_, each.log_seq) for id_, each in admission.gates.items())
