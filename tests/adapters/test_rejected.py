from dataclasses import fields, replace
from datetime import date, timedelta

import pytest

from shared.adapters.blobs import BlobTexts
from shared.adapters.tables.rejected import TablesRejected
from shared.core.records.canonical import digest
from shared.ports.rejected import RejectedMessage, Rejection, rejection_id
from tests.adapters.conftest import Storage
from tests.jobs import START

DAY = START.date()


def message(number: int, seconds: float = 0, body: str = "{", tenant: str | None = None) -> RejectedMessage:
    at = START + timedelta(seconds=seconds)
    return RejectedMessage(
        id=rejection_id(at, lane=3, message_id="m", sequence_number=number),
        received_at=at,
        reason="NOT_JSON",
        detail="the body is not JSON",
        lane=3,
        message_id="m",
        sequence_number=2**40 + number,
        delivery_count=1,
        tenant=tenant,
        body=body,
    )


def line(rejected: RejectedMessage) -> Rejection:
    """As a list has it."""
    return Rejection(**{field.name: getattr(rejected, field.name) for field in fields(Rejection)})


async def test_what_is_parked_is_read_back(storage: Storage) -> None:
    """Every column survives, also a body over the limit of a property; an unknown id is None."""
    parked = message(1, body="\N{GRINNING FACE}" * 20_000)
    await storage.rejected.quarantine(parked)
    assert await storage.rejected.read(parked.id) == parked
    assert await storage.rejected.read(message(2).id) is None


async def test_a_day_is_listed_newest_first_and_paged(storage: Storage) -> None:
    """A page continues after the last id of the previous one; other days are not in it."""
    messages = [message(number, seconds=60 * number) for number in range(4)]
    for each in [*messages, message(9, seconds=86_400)]:
        await storage.rejected.quarantine(each)
    first = await storage.rejected.list_days(DAY, DAY, tenant=None, after=None, limit=3)
    assert first == [line(messages[number]) for number in (3, 2, 1)]
    assert await storage.rejected.list_days(DAY, DAY, tenant=None, after=first[-1].id, limit=3) == [line(messages[0])]


async def test_a_redelivery_keeps_the_mark(storage: Storage) -> None:
    """Parked again, the message is one row still, with its new delivery count and the mark of its redrive."""
    parked = message(1)
    await storage.rejected.quarantine(parked)
    await storage.rejected.mark(parked, redriven_at=START, outcome="APPLIED")
    await storage.rejected.quarantine(replace(parked, delivery_count=2))
    marked = replace(parked, delivery_count=2, redriven_at=START, redriven_outcome="APPLIED")
    assert await storage.rejected.list_days(DAY, DAY, tenant=None, after=None, limit=10) == [line(marked)]


async def test_a_mark_on_nothing_is_harmless(storage: Storage) -> None:
    """The row may be gone by retention before its mark comes."""
    await storage.rejected.mark(message(1), redriven_at=START, outcome="APPLIED")
    assert await storage.rejected.read(message(1).id) is None


async def test_a_tenants_list_has_its_own_messages(storage: Storage) -> None:
    """Over days, newest first and paged, with the marks of redrives; a list of all has those that name none too."""
    days = 3
    own = [message(number, seconds=86_400 * (number % days), tenant="tenant_a") for number in range(4)]
    others = [message(8, tenant="tenant_b"), message(9)]
    for each in [*own, *others]:
        await storage.rejected.quarantine(each)
    await storage.rejected.mark(own[0], redriven_at=START, outcome="APPLIED")
    last = DAY + timedelta(days=days)
    listed = await storage.rejected.list_days(DAY, last, tenant="tenant_a", after=None, limit=3)
    listed += await storage.rejected.list_days(DAY, last, tenant="tenant_a", after=listed[-1].id, limit=3)
    marked = replace(own[0], redriven_at=START, redriven_outcome="APPLIED")
    newest_first = sorted([marked, *own[1:]], key=lambda each: each.id, reverse=True)
    assert [each.received_at for each in listed] == [each.received_at for each in newest_first]
    assert {each.id: each for each in listed} == {each.id: line(each) for each in newest_first}
    assert len(await storage.rejected.list_days(DAY, last, tenant=None, after=None, limit=10)) == 6
    for first, count in ((DAY, 2), (DAY + timedelta(days=1), 1), (last, 0)):
        assert len(await storage.rejected.list_days(first, first, tenant="tenant_a", after=None, limit=9)) == count


@pytest.mark.parametrize("storage", ["tables"], indirect=True)
async def test_a_list_reads_no_body_and_no_row_of_another_tenant(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With bodies of any length, and any number of messages of other tenants."""
    assert isinstance(storage.rejected, TablesRejected)
    for number in range(3):
        await storage.rejected.quarantine(message(number, body="b" * 100_000, tenant=f"tenant_{number}"))
    monkeypatch.setattr(storage.rejected, "_texts", None)
    table = await storage.rejected._rows.account.table(storage.rejected._rows.name)
    asked: list[dict[str, object]] = []
    query = table.query_entities

    def recording(text: str, **options: object) -> object:
        asked.append({"text": text, **options})
        return query(text, **options)  # type: ignore[arg-type]  # as they were given

    monkeypatch.setattr(table, "query_entities", recording)
    [found] = await storage.rejected.list_days(DAY, DAY, tenant="tenant_1", after=None, limit=10)
    assert found.tenant == "tenant_1"
    [one] = asked
    assert "body" not in str(one["select"])
    assert str(one["text"]).startswith("PartitionKey eq")


async def test_what_is_old_goes_with_its_bodies_in_pieces(storage: Storage) -> None:
    """The oldest days first; younger messages stay; idempotent."""
    old = [message(number, body="b" * 40_000 + str(number), tenant="tenant_a") for number in range(3)]
    young = message(7, seconds=86_400, body="b" * 40_000, tenant="tenant_a")
    for each in [*old, young]:
        await storage.rejected.quarantine(each)
    tomorrow = DAY + timedelta(days=1)
    assert [await storage.rejected.delete_before(tomorrow, limit=2) for _ in range(3)] == [2, 1, 0]
    for tenant in ("tenant_a", None):
        left = await storage.rejected.list_days(DAY, tomorrow, tenant=tenant, after=None, limit=10)
        assert left == [line(young)]
    assert [await storage.rejected.read(each.id) for each in [*old, young]] == [None, None, None, young]
    assert isinstance(storage.rejected, TablesRejected)
    texts = storage.rejected._texts
    if isinstance(texts, BlobTexts):
        names = texts._service.get_container_client(texts._container).list_blob_names(name_starts_with=f"{DAY:%Y%m%d}/")
        bodies = {digest(each.body) for each in old}
        assert not bodies & {name.split("/")[1] async for name in names}


async def test_days_at_the_ends_of_the_calendar_are_empty(storage: Storage) -> None:
    """No day follows 9999-12-31."""
    await storage.rejected.quarantine(message(0))
    for day in (date.min, date.max):
        for tenant in (None, "tenant_a"):
            assert await storage.rejected.list_days(day, day, tenant=tenant, after=None, limit=9) == []
