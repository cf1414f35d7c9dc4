from dataclasses import replace
from datetime import timedelta

from shared.ports.rejected import RejectedMessage, rejection_id
from tests.adapters.conftest import Storage
from tests.jobs import START

DAY = f"{START:%Y%m%d}"


def message(number: int, seconds: float = 0, body: str = "{") -> RejectedMessage:
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
        body=body,
    )


async def test_what_is_parked_is_read_back(storage: Storage) -> None:
    """Every column survives, a body over the limit of a property too; an unknown id is None."""
    parked = message(1, body="\N{GRINNING FACE}" * 20_000)
    await storage.rejected.quarantine(parked)
    assert await storage.rejected.read(parked.id) == parked
    assert await storage.rejected.read(message(2).id) is None


async def test_a_day_is_listed_newest_first_and_paged(storage: Storage) -> None:
    """A page goes on after the id that ended the one before; other days are not in it."""
    messages = [message(number, seconds=60 * number) for number in range(4)]
    for each in [*messages, message(9, seconds=86_400)]:
        await storage.rejected.quarantine(each)
    first = await storage.rejected.list_day(DAY, after=None, limit=3)
    assert first == [messages[3], messages[2], messages[1]]
    assert await storage.rejected.list_day(DAY, after=first[-1].id, limit=3) == [messages[0]]


async def test_a_redelivery_keeps_the_mark(storage: Storage) -> None:
    """Parked again, the message is one row still, with its new delivery count and the mark of its redrive."""
    parked = message(1)
    await storage.rejected.quarantine(parked)
    await storage.rejected.mark(parked.id, redriven_at=START, outcome="APPLIED")
    await storage.rejected.quarantine(replace(parked, delivery_count=2))
    marked = replace(parked, delivery_count=2, redriven_at=START, redriven_outcome="APPLIED")
    assert await storage.rejected.list_day(DAY, after=None, limit=10) == [marked]


async def test_a_mark_on_nothing_is_harmless(storage: Storage) -> None:
    """The row may be gone by retention before its mark comes."""
    await storage.rejected.mark(message(1).id, redriven_at=START, outcome="APPLIED")
    assert await storage.rejected.read(message(1).id) is None
