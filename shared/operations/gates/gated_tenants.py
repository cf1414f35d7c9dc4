"""Keeps a tenant in the directory of quotas as long as the tenant's admission state needs the entry (R48)."""

from __future__ import annotations

from shared.core.events.public_log_events import feed_of
from shared.core.gates import changes
from shared.core.gates.admission_state import AdmissionState
from shared.core.gates.rules import EVERY
from shared.operations.process.context import Context


async def enter_tenant(context: Context, tenant: str) -> None:
    """Adds a tenant that now gets quotas of its own. Idempotent. Raises Contended, Undecodable, LedgerUnavailable."""
    if tenant != EVERY:
        await context.admissions.enter_tenant(tenant, context.clock.now())
        context.process.gate_directory.forget()


async def remove_unused_tenant(context: Context, admission: AdmissionState) -> None:
    """Removes the tenant from the directory if the tenant needs no entry, else adds the tenant (Race last-rule).

    The tenant needs the entry while a quota is set, a job waits, or the tenant's feed lacks a log.

    A process that sets a quota adds the tenant before its write and again after it. A process that removes the entry
    reads the state again. The later of the two sees the other's write. Raises Contended, Undecodable,
    LedgerUnavailable.
    """
    tenant = admission.tenant
    if tenant == EVERY:
        return
    if not is_needed(context, admission):
        await context.admissions.remove_tenant(tenant)
        stored = await context.admissions.read(tenant)
        if stored is None or not is_needed(context, stored.admission):
            context.process.gate_directory.forget()
            return
    await enter_tenant(context, tenant)


def is_needed(context: Context, admission: AdmissionState) -> bool:
    """Returns `True` if the tenant must stay in the directory, for its quotas or until its feed has their logs
    (R79).
    """
    if changes.is_in_use(admission, context.clock.now()):
        return True
    if context.events is None:
        return False
    feed, logs = feed_of(admission.tenant), context.events.compared_logs
    return not all(logs.has(feed, id_, each.log_seq) for id_, each in admission.gates.items())
