"""A job whose long value no longer exists, on the real stores: it is refused permanently, and other jobs continue."""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import timedelta

import pytest

from shared.access.caller import ANYONE, Caller
from shared.adapters.blobs import BlobTexts
from shared.adapters.scoped.stores import TenantLedger, TenantRejected
from shared.adapters.tables.ledger import TablesLedger
from shared.core.filters import JobFilter
from shared.core.jobs.states import JobStatus
from shared.errors import DataLost
from shared.operations.jobs.list_jobs import list_jobs
from shared.operations.jobs.replies.apply import apply_reply
from shared.operations.jobs.replies.receive import ReplyMessage, receive_reply
from shared.operations.sweeper.report import RepairKind
from shared.operations.sweeper.sweep import sweep
from tests.adapters.conftest import Storage
from tests.adapters.test_rejected import message
from tests.jobs import START, reply
from tests.operations.conftest import World, built
from tests.operations.support import dispatch, relisted, submitted

pytestmark = pytest.mark.parametrize("storage", ["tables"], indirect=True)


async def one_lost_of_two(storage: Storage, texts: BlobTexts) -> tuple[World, str, str]:
    """Returns a job whose note is lost, and a complete one; both were dispatched."""
    world = built(storage.ledger)  # type: ignore[arg-type]  # any ledger will do
    world = replace(world, context=replace(world.context, index=storage.index, rejected=storage.rejected))
    lost, whole = [await submitted(world, request_type="OCR", payload={}, doc_id=name) for name in ("lost", "whole")]
    for job_id in (lost, whole):
        await dispatch(world, job_id)
    record = await world.job(lost)
    failed = reply(record, "RESULT", status="FAILED_RETRY", error={"code": "BAD", "message": "m" * 40_000})
    await apply_reply(world.context, world.orchestrations, failed, cause_id="message:1", source="bus")
    await texts.remove(f"{lost}/")
    return world, lost, whole


@pytest.fixture
async def texts(azurite: str, storage: Storage) -> BlobTexts:
    assert isinstance(storage.ledger, TablesLedger)
    found = storage.ledger._texts
    assert isinstance(found, BlobTexts)
    return found


async def test_its_tenant_gets_the_error_and_nobody_else(storage: Storage, texts: BlobTexts) -> None:
    """Permanently, with the blob's name for the log; for another tenant the job does not exist."""
    _, lost, _ = await one_lost_of_two(storage, texts)
    own = Caller(actor="a", scopes=frozenset(), tenant="tenant_a")
    for caller in (own, ANYONE):
        with pytest.raises(DataLost, match=f"blob {lost}/"):
            await TenantLedger(storage.ledger, caller).read(lost)
    other = Caller(actor="b", scopes=frozenset(), tenant="tenant_b")
    assert await TenantLedger(storage.ledger, other).read(lost) is None


async def test_its_replies_are_parked_at_once(storage: Storage, texts: BlobTexts) -> None:
    """Another try would read the same hole."""
    world, lost, whole = await one_lost_of_two(storage, texts)
    body = reply(await world.job(whole), "ACK").model_copy(update={"jobId": lost}).model_dump_json(exclude_none=True)
    sent = ReplyMessage(
        body=body.encode(), lane=15, message_id="m", sequence_number=1, delivery_count=1, enqueued_at=START
    )
    await receive_reply(world.context, world.orchestrations, sent)
    [parked] = await storage.rejected.list_days(START.date(), START.date(), tenant=None, after=None, limit=10)
    assert (parked.reason, f"blob {lost}/" in parked.detail) == ("LEDGER_REFUSED", True)


async def test_lists_and_sweeps_go_on_without_it(
    storage: Storage, texts: BlobTexts, caplog: pytest.LogCaptureFixture
) -> None:
    """The other job is listed, updated and repaired; the lost one is checked again after an hour."""
    world, lost, whole = await one_lost_of_two(storage, texts)
    caplog.set_level(logging.CRITICAL)
    living = JobFilter(tenant_id="tenant_a", statuses=frozenset(JobStatus))
    listed = (await list_jobs(world.context, living, after=None, limit=10)).lines
    assert {line.jobId for line in listed} == {lost, whole}
    assert await relisted(world) == 1
    world.clock.advance(3600)
    actions = {action.job_id: action.kind for action in (await sweep(world.context, world.orchestrations)).actions}
    assert (actions[lost], actions[whole]) == (RepairKind.FAILED, RepairKind.RAISE)
    soon = world.clock.now() + timedelta(minutes=59)
    due = await storage.index.due("tenant_a", now=soon, limit=10)
    assert [active.job_id for active in due] == [whole]


async def test_a_message_without_its_body_is_there_for_its_tenant_alone(storage: Storage, texts: BlobTexts) -> None:
    """As for a job; it is in the list, which shows no body."""
    await storage.rejected.quarantine(message(1, body="b" * 100_000, tenant="tenant_a"))
    [listed] = await storage.rejected.list_days(START.date(), START.date(), tenant="tenant_a", after=None, limit=10)
    await texts.remove(f"{START:%Y%m%d}/")
    own, other = (Caller(actor="a", scopes=frozenset(), tenant=tenant) for tenant in ("tenant_a", "tenant_b"))
    with pytest.raises(DataLost):
        await TenantRejected(storage.rejected, own).read(listed.id)
    assert await TenantRejected(storage.rejected, other).read(listed.id) is None
