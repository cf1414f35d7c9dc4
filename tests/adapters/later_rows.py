"""A store with one row of each type, as the adapters write them, and the additions of a later release to each row."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from shared.adapters.tables.admissions import TablesAdmissions
from shared.adapters.tables.allocations import TablesAllocations
from shared.adapters.tables.bulks import TablesBulks
from shared.adapters.tables.columns import join_text
from shared.adapters.tables.feed import TablesFeed
from shared.adapters.tables.heads import TablesHeads
from shared.adapters.tables.hooks import TablesHooks
from shared.adapters.tables.incidents import TablesIncidents
from shared.adapters.tables.index import TablesIndex
from shared.adapters.tables.ledger import TablesLedger
from shared.adapters.tables.minutes import TablesMinutes
from shared.adapters.tables.rejected import TablesRejected
from shared.adapters.tables.sweep_mark import TablesAnswers, TablesSweepMark
from shared.adapters.tables.table import INT64, Entity
from shared.adapters.tables.usage import TablesUsage
from shared.core.gates.admission_state import AdmissionState, WaitingQueue
from shared.core.gates.allocation import Account, AllocationRecord
from shared.core.gates.breaker import Breaker, BreakerRule, BreakerState, JobEnd
from shared.core.gates.rules import AdmissionBreaker, Gate, GateKind, GateState, Hold, QuotaShare, Rule, Throttle
from shared.ports.admissions import AdmissionWrite
from tests.fake_tables import FakeAccount
from tests.jobs import START
from tests.stored_names import Rows, stored_and_sent

TENANT, JOB = "tenant_a", "job_1"
OCR = Gate(GateKind.TYPE, TENANT, "OCR")
ALL_OCR = Gate.over_all(GateKind.PLATFORM_TYPE, "OCR")
BOOK = "0" * 16
#: partitions whose rows have no prefix, or have one subject
_OF_PARTITIONS = ("asks", "bulks", "directory", "tenants", "=feeds", "=hooks")
#: columns that are maps: their members are names of types, modes, sources, steps or tenants, which no release adds to
_MAPS = {
    *(("GATES", "inside"), ("GATES", "inside_by_source"), ("ACTIVE", "looks"), ("DUE", "looks")),
    *(("USAGE PEAK", "content"), ("USAGE REJECTED", "content"), ("SWEEP", "active"), ("SWEEP", "modes")),
}
#: maps of objects
_MAPS_OF_OBJECTS = {("GATES", "lines"), ("GATES", "shares"), ("BOOK", "accounts")}
#: rows whose list elements are members by position
_POSITIONAL = ("GATES", "BOOK")
_LATER = "of a later release"
#: of this process, written once
_ROWS: Rows = {}


class RowTexts:
    """See `shared.adapters.tables.claim_check.TextStore`."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    async def put(self, name: str, text: str) -> None:
        self.texts[name] = text

    async def get(self, name: str) -> str:
        return self.texts.get(name, '{"text":"x"}')

    async def remove(self, prefix: str) -> None:
        for name in [name for name in self.texts if name.startswith(prefix)]:
            del self.texts[name]


@dataclass
class Stores:
    """Every adapter of the tables, over one store in memory."""

    account: FakeAccount = field(default_factory=FakeAccount)
    texts: RowTexts = field(default_factory=RowTexts)

    def __post_init__(self) -> None:
        account: Any = self.account
        self.ledger = TablesLedger(account, "ledger", self.texts)
        self.index = TablesIndex(account, "index", "tenants")
        self.admissions = TablesAdmissions(account, "index", "gates")
        self.allocations = TablesAllocations(account, "gates")
        self.bulks = TablesBulks(account, "index", "gates")
        self.incidents = TablesIncidents(account, "index", "gates")
        self.feed = TablesFeed(account, "feed", lambda: START)
        self.heads = TablesHeads(account, "feed")
        self.hooks = TablesHooks(account, "feed")
        self.usage = TablesUsage(account, "index")
        self.rejected = TablesRejected(account, "rejected", self.texts)
        self.marks = TablesSweepMark(account, "index")
        self.minutes = TablesMinutes(account, "index")
        self.answers = TablesAnswers(account, "gates")

    def of(self, kind: str) -> list[Any]:
        """Rows of the type."""
        tables = self.account.tables.items()
        return [row for name, table in tables for row in table.all_rows if kind_of(name, row) == kind]

    def amend(self, kind: str, **columns: Any) -> None:
        """Changes columns of the rows of the type, whose ETags stay; removes a column that is None."""
        for name, table in self.account.tables.items():
            for row in table.all_rows:
                if kind_of(name, row) == kind:
                    table.amend(row["PartitionKey"], row["RowKey"], columns)

    def remove(self, kind: str) -> None:
        for name, table in self.account.tables.items():
            for row in table.all_rows:
                if kind_of(name, row) == kind:
                    table.remove(row["PartitionKey"], row["RowKey"])


def kind_of(table: str, row: Mapping[str, Any]) -> str:
    """The type of a row: the prefix of its key, or the partition of rows without one."""
    partition, key = row["PartitionKey"], row["RowKey"]
    if table == "rejected" or partition in _OF_PARTITIONS:
        return table if table == "rejected" else str(partition)
    if partition == "incidents" and key.startswith("INCIDENT:"):
        return "INCIDENT of no job"
    first, *others = key.split(":")
    return f"USAGE {others[-1]}" if first == "USAGE" else str(first)


async def stores() -> Stores:
    """One row of each type that `tests.stored_names` knows; the admission state and the allocation record with every
    member.
    """
    if not _ROWS:
        await stored_and_sent(_ROWS)
    made = Stores()
    for (name, _, _), row in _ROWS.items():
        # of a job that was written with a short value and with a long one
        both = {column for column in row if column.endswith("__blob") and column.removesuffix("__blob") in row}
        made.account.of(name).put({column: value for column, value in row.items() if column not in both})
    made.remove("GATES")
    made.remove("BOOK")
    ring = (JobEnd(START, 1, good=False), JobEnd(START, 1, good=True, tenant=TENANT))
    opened: dict[str, Any] = {"opened_at": START, "opened_by": (1, 2), "until": START}
    breaker = Breaker(state=BreakerState.OPEN, epoch=1, ring=ring, active=1, **opened)
    hold = Hold(reason="r", actor="a", at=START, until=START)
    state = GateState(
        gate=OCR,
        rule=Rule(max_active=5, breaker=BreakerRule()),
        hold=hold,
        throttle=Throttle(max_per_hour=1, reason="r", actor="a", at=START),
        breaker=breaker,
    )
    share = QuotaShare(gate=ALL_OCR, slots=1, breaker=AdmissionBreaker(epoch=1, since=1, ring=ring, until=START))
    admission = AdmissionState(
        tenant=TENANT,
        gates={OCR.id: state},
        active_by_kind={("OCR", "fast"): 1},
        active_by_source={"s": 1},
        queues={3: WaitingQueue(job_type="OCR", mode="fast", source=None, emergency=False, count=1, head=1)},
        shares={ALL_OCR.id: share},
        counted_at=START,
        counting_until=START,
        wake_at=START,
    )
    await made.index.write_admission(AdmissionWrite(before=None, after=admission))
    allocation_record = AllocationRecord(
        gate_id=BOOK, accounts={TENANT: Account(granted=1)}, breaker=breaker, credit=1, credit_at=START
    )
    await made.allocations.write(allocation_record, before=None)
    return made


def with_later_members(kind: str, row: Entity) -> dict[str, Any]:
    """The row with two more columns, and with one more member of each JSON object in a column."""
    found = {name: _extended(kind, name, value) for name, value in row.items()}
    longs = {name: (value, INT64) for name, value in row.items() if name in row.int64}
    return {**found, **longs, "later_text": _LATER, "later_number": (2**40, INT64)}


def missing(kind: str, row: Entity) -> Iterator[str]:
    """Yields the additions of `with_later_members` that the row lacks."""
    if (row.get("later_text"), row.get("later_number")) != (_LATER, 2**40) or "later_number" not in row.int64:
        yield "its columns"
    for name, first in row.items():
        if _is_json(name, first) and not re.search(r"_\d+$", name):
            value = join_text(name, row)
            if json.loads(_extended(kind, name, value)) != json.loads(value):
                yield f"members of {name}: {value}"


def _is_json(name: str, value: Any) -> bool:
    return name not in ("event", "body") and isinstance(value, str) and re.match(r"[\[{]", value) is not None


def _extended(kind: str, name: str, value: Any) -> Any:
    base = re.sub(r"_\d+$", "", name)
    if not _is_json(name, value) or (kind, base) in _MAPS:
        return value
    content = json.loads(value)
    if (kind, base) in _MAPS_OF_OBJECTS:
        return json.dumps({key: _more(kind, each) for key, each in content.items()})
    return json.dumps(_more(kind, content))


def _more(kind: str, value: Any) -> Any:
    """Changes nothing if it is there already."""
    if isinstance(value, dict):
        known = {key: each if key == "later" else _more(kind, each) for key, each in value.items()}
        return {**known, "later": [_LATER]}
    if not isinstance(value, list) or kind not in _POSITIONAL or _LATER in value:
        return value
    if value and isinstance(value[0], list):
        return [_more(kind, each) for each in value]
    # an end of a breaker has its tenant in the fourth place, if any
    is_end_without_tenant = len(value) == 3 and isinstance(value[0], int)
    return [*value, *([""] if is_end_without_tenant else []), _LATER]


async def later_stores() -> Stores:
    """The same after a later release wrote each row."""
    made = await stores()
    for name, table in made.account.tables.items():
        for row in table.all_rows:
            table.put(with_later_members(kind_of(name, row), row))
    return made


def changed(admission: AdmissionState, **changes: Any) -> AdmissionState:
    """The admission state with its one quota changed."""
    return admission.with_state(replace(admission.gates[OCR.id], **changes))
