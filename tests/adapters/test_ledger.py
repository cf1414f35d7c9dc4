from dataclasses import replace

import pytest
from azure.data.tables.aio import TableServiceClient

from shared.core.jobs.decide import apply
from shared.core.jobs.history import Provenance, append
from shared.core.jobs.job import Event, Record
from shared.core.jobs.occurrences import RecordAttempt, ReplyArrived
from shared.errors import AlreadyExists, Conflict, UnknownStatus
from shared.ports.ledger import Stored
from tests.adapters.conftest import Storage
from tests.jobs import START, planned, reply


def created(job_id: str = "job_1", **changes: object) -> tuple[Record, Event]:
    fresh = planned(job_id, **changes)
    cause = Provenance(cause_id=f"create:{job_id}", actor="caller", source="http", at=START, salt="")
    return append(None, fresh.with_job(event_seq=0, event_hash=""), "JOB_CREATED", cause)


async def recorded(storage: Storage, stored: Stored) -> Stored:
    outcome = apply(
        stored.record,
        RecordAttempt("ocr", "lease"),
        Provenance(cause_id="dispatch:1", actor="system", source="dispatch", at=START, salt=""),
    )
    return await storage.ledger.commit(stored, outcome.record, outcome.events)


async def test_what_is_written_is_read_back(storage: Storage) -> None:
    """Every column of JOB, STEP and EVENT survives the trip, types and all."""
    record, event = created(
        labels={"team": "größe"}, doc_id="doc 1", traceparent="00-" + "a" * 32 + "-" + "b" * 16 + "-01"
    )
    await storage.ledger.create(record, event)
    stored = await storage.ledger.read("job_1")
    assert stored is not None
    assert stored.record == record
    changed = await recorded(storage, stored)
    again = await storage.ledger.read("job_1")
    assert again is not None
    assert again.record == changed.record
    assert await storage.ledger.events("job_1") == [event, *(await storage.ledger.events("job_1", after_seq=1))]
    assert [found.type for found in await storage.ledger.events("job_1")] == ["JOB_CREATED", "ATTEMPT_RECORDED"]


async def test_unknown_job(storage: Storage) -> None:
    """A missing job is None, its events an empty list."""
    assert await storage.ledger.read("job_none") is None
    assert await storage.ledger.end_of("job_none") is None
    assert await storage.ledger.events("job_none") == []


async def test_a_job_is_created_once(storage: Storage) -> None:
    """A second creation gets AlreadyExists and changes nothing."""
    record, event = created()
    await storage.ledger.create(record, event)
    other, other_event = created(doc_id="another")
    with pytest.raises(AlreadyExists):
        await storage.ledger.create(other, other_event)
    stored = await storage.ledger.read("job_1")
    assert stored is not None
    assert stored.record == record


async def test_the_slower_of_two_moves_conflicts(storage: Storage) -> None:
    """Two transitions from one read: the second gets Conflict, and none of its rows is written."""
    record, event = created()
    first = await storage.ledger.create(record, event)
    await recorded(storage, first)
    with pytest.raises(Conflict):
        await recorded(storage, first)
    assert len(await storage.ledger.events("job_1")) == 2
    assert await storage.ledger.end_of("job_1") == (2, False)


async def test_a_commit_gives_the_token_of_the_next(storage: Storage) -> None:
    """Moves chain without reading in between."""
    stored = await storage.ledger.create(*created())
    stored = await recorded(storage, stored)
    outcome = apply(
        stored.record,
        ReplyArrived(reply(stored.record, "ACK")),
        Provenance(cause_id="m:1", actor="service:ocr", source="bus", at=START, salt=""),
    )
    await storage.ledger.commit(stored, outcome.record, outcome.events)
    found = await storage.ledger.find_event("job_1", "m:1")
    assert found is not None
    assert (found.type, found.from_status, found.to_status) == ("ACK", "INITIATED", "PROCESSING")
    assert await storage.ledger.find_event("job_1", "m:2") is None


async def test_long_strings_are_kept_whole(storage: Storage) -> None:
    """A payload over 30,000 UTF-16 units, emoji counted, is returned unchanged."""
    long = "\N{GRINNING FACE}" * 20_000
    record, event = created(payload={"ocr": {}, "embedding": {}, "sis": {"prompt_set": [long]}})
    await storage.ledger.create(record, event)
    stored = await storage.ledger.read("job_1")
    assert stored is not None
    assert stored.record.steps[2].payload == {"prompt_set": [long]}


async def test_a_large_result_is_kept_whole(storage: Storage) -> None:
    """The content of a RESULT fills a message; its row and its EVENT row return it unchanged."""
    stored = await recorded(storage, await storage.ledger.create(*created()))
    uri = "https://account.blob.core.windows.net/workspace/"
    artifacts = [{"name": f"page {number}", "uri": f"{uri}{number:0200}.json", "size": number} for number in range(500)]
    sent = reply(stored.record, "RESULT", artifacts=artifacts, metrics={"words": "ä" * 60_000}, digests=[1.0, None])
    cause = Provenance(cause_id="m:1", actor="service:ocr", source="bus", at=START, salt="00")
    outcome = apply(stored.record, ReplyArrived(sent), cause)
    await storage.ledger.commit(stored, outcome.record, outcome.events)
    again = await storage.ledger.read("job_1")
    assert again is not None
    assert again.record == outcome.record
    assert again.record.steps[0].result == sent.content
    assert await storage.ledger.events("job_1", after_seq=2) == list(outcome.events)


async def test_events_page(storage: Storage) -> None:
    """A page starts after a number and ends at its limit."""
    stored = await storage.ledger.create(*created())
    for number in range(5):
        cause = Provenance(cause_id=f"c{number}", actor="a", source="s", at=START, salt="")
        after, event = append(stored.record, stored.record, "NOTE", cause)
        stored = await storage.ledger.commit(stored, after, [event])
    assert [event.seq for event in await storage.ledger.events("job_1", after_seq=2, limit=3)] == [3, 4, 5]


async def test_rows_have_their_documented_columns(azurite: str) -> None:
    """Keys and columns of the ledger's tables, read with the SDK as an operator would."""
    from shared.adapters.blobs import BlobTexts
    from shared.adapters.tables.account import TablesAccount
    from shared.adapters.tables.index import TablesIndex
    from shared.adapters.tables.ledger import TablesLedger

    account = TablesAccount.connect(connection=azurite, endpoint=None, credential=None, version_table="luciustenants")
    texts = BlobTexts.connect(connection=azurite, endpoint=None, credential=None)
    record, event = created("job_rows", tenant_id="Contoso/EU")
    record = Record(replace(record.job), record.steps)
    await TablesIndex(account, "luciusindex", "luciustenants").reserve(record.job, replacing=None)
    await TablesLedger(account, "luciusledger", texts).create(record, event)
    async with TableServiceClient.from_connection_string(azurite) as service:
        ledger = service.get_table_client("luciusledger")
        keys = [row["RowKey"] async for row in ledger.query_entities("PartitionKey eq 'job_rows'")]
        job = await ledger.get_entity("job_rows", "JOB")
        step = await ledger.get_entity("job_rows", "STEP:0002:sis")
        index = service.get_table_client("luciusindex")
        rows = [row["RowKey"] async for row in index.query_entities("PartitionKey eq 'contoso=2Feu'")]
    assert keys == ["EVENT:0000000001", "JOB", "STEP:0000:ocr", "STEP:0001:embedding", "STEP:0002:sis"]
    assert (job["status"], job["tenant_id"], job["current_step_index"]) == ("QUEUED", "Contoso/EU", 0)
    assert job["tenant_bucket"] == "contoso/eu#202601"
    assert (step["status"], step["attempt_no"], step["resolved_mode"]) == ("PENDING", 0, "DEFAULT")
    assert [row.split(":")[0] for row in rows] == ["ACTIVE", "CLAIM", "CORRELATION", "DUE", "LIST"]
    async with TableServiceClient.from_connection_string(azurite) as service:
        of_a_later_release = {"PartitionKey": "job_rows", "RowKey": "JOB", "status": "OF_A_LATER_RELEASE"}
        await service.get_table_client("luciusledger").update_entity(of_a_later_release)
    with pytest.raises(UnknownStatus, match="OF_A_LATER_RELEASE"):
        await TablesLedger(account, "luciusledger", texts).read("job_rows")
    await account.close()
    await texts.close()


async def test_the_largest_job_moves_in_one_transaction(storage: Storage) -> None:
    """Fifty steps whose long strings are just below the claim check size, changed in one transaction."""
    long = "é" * 29_000
    record, event = created("job_50")
    [first, *_] = record.steps
    steps = tuple(
        replace(first, step_id=f"s{index}", step_index=index, payload={"text": long[: index * 300]})
        for index in range(50)
    )
    stored = await storage.ledger.create(Record(record.job, steps), event)
    grown = tuple(replace(step, result_ref={"uri": long}, progress=long) for step in steps)
    cause = Provenance(cause_id="grow", actor="a", source="test", at=START, salt="")
    after, text = append(stored.record, Record(stored.record.job, grown), "CHANGED", cause, data={"text": long})
    await storage.ledger.commit(stored, after, [text])
    again = await storage.ledger.read("job_50")
    assert again is not None
    assert again.record == after
    assert (await storage.ledger.events("job_50"))[-1] == text
