from shared.access.caller import ANYONE, Caller
from shared.adapters.memory import MemoryLedger
from shared.adapters.tenant_scope import TenantLedger
from shared.core.history import Provenance, append
from shared.operations.sweeper.report import Action, SweepAction
from tests.jobs import START, planned
from triggers.reconcile_http import visible_actions


async def test_a_sweep_by_hand_lists_the_jobs_of_its_caller() -> None:
    """A tenant's admin reads no other tenant's job in what was done, nor one that never was; an operator reads all."""
    ledger = MemoryLedger()
    for job_id, tenant in (("job_a", "tenant_a"), ("job_b", "Tenant_B")):
        cause = Provenance(cause_id="create", actor="test", source="http", at=START, salt="")
        await ledger.create(*append(None, planned(job_id, tenant_id=tenant), "JOB_CREATED", cause))
    actions = [Action(job_id, SweepAction.START) for job_id in ("job_a", "job_b", "job_gone")]
    admin = Caller(actor="b", scopes=frozenset(), tenant="tenant_b")
    assert await visible_actions(actions, admin, TenantLedger(ledger, admin)) == [actions[1]]
    assert await visible_actions(actions, ANYONE, ledger) == actions
