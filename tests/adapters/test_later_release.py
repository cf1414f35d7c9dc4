"""Rows of a later release: this release ignores the parts that it does not know, and keeps them when it writes the row
again (R44).
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from shared.core.gates.rules import Rule
from shared.errors import Undecodable
from shared.ports.admissions import AdmissionWrite
from tests.adapters.later_rows import (
    BOOK,
    JOB,
    OCR,
    TENANT,
    Stores,
    changed,
    kind_of,
    later_stores,
    missing,
    stores,
)
from tests.adapters.later_writes import REPLACED, WRITES_AGAIN, admission_of


async def test_each_type_of_row_is_covered() -> None:
    """A new type must define the effect of a later release's columns."""
    made = await stores()
    kinds = {kind_of(name, row) for name, table in made.account.tables.items() for row in table.all_rows}

    assert kinds == {*WRITES_AGAIN, *REPLACED}


@pytest.mark.parametrize("kind", WRITES_AGAIN)
async def test_unknown_members_stay(kind: str) -> None:
    """A column, and a member of each JSON object, are there after this release has written the row."""
    made = await later_stores()
    before = {row.metadata["etag"] for row in made.of(kind)}

    await WRITES_AGAIN[kind](made)

    rows = made.of(kind)
    written = [row for row in rows if row.metadata["etag"] not in before]
    assert written, "nothing was written"
    assert [lost for row in rows for lost in missing(kind, row)] == []


async def test_an_unchanged_row_is_written_as_it_was() -> None:
    """The admission state and the allocation record, to the last member."""
    made = await later_stores()
    for kind, write in (("GATES", counting_nothing), ("BOOK", dividing_nothing)):
        [before] = made.of(kind)
        await write(made)
        [after] = made.of(kind)
        assert _values(after) == _values(before)


def _values(row: dict[str, Any]) -> dict[str, Any]:
    return {name: json.loads(each) if str(each)[0] in "[{" else each for name, each in row.items()}


async def counting_nothing(made: Stores) -> None:
    before = await admission_of(made)
    await made.index.write_admission(AdmissionWrite(before=before, after=before.admission))


async def dividing_nothing(made: Stores) -> None:
    before = await made.allocations.read(BOOK)
    assert before is not None
    await made.allocations.write(before.record, before=before)


async def test_a_new_rule_has_nothing_of_the_old_one() -> None:
    """Of the old rule nothing stays; the hold beside it, which was not set, keeps all."""
    made = await later_stores()
    before = await admission_of(made)
    after = changed(before.admission, rule=Rule(max_active=9), throttle=None)

    await made.index.write_admission(AdmissionWrite(before=before, after=after))

    [row] = made.of("GATES")
    state = json.loads(row[f"gate_{OCR.id}"])
    assert ("later" in state["rule"], "later" in state["hold"], "throttle" in state) == (False, True, False)
    assert (await admission_of(made)).admission == after


async def test_a_quota_that_is_removed_goes_with_all_of_it() -> None:
    """The column of the quota, with the members of the later release."""
    made = await later_stores()
    before = await admission_of(made)
    await made.index.write_admission(
        AdmissionWrite(before=before, after=replace(before.admission, gates={}, shares={}, queues={}))
    )
    [row] = made.of("GATES")
    assert [name for name in row if name.startswith("gate_")] == []
    assert (json.loads(row["shares"]), json.loads(row["lines"])) == ({}, {})


async def test_a_quota_of_an_unknown_kind_stops_no_job_and_stays() -> None:
    """Its column, and a share of such a quota; the other quotas are in effect."""
    made = await later_stores()
    [row] = made.of("GATES")
    region = json.dumps({"gate": {"kind": "tenant/region", "tenant": TENANT, "name": "eu"}, "limit": {"max": 1}})
    shares = {**json.loads(row["shares"]), "f" * 16: {"gate": ["region", "eu"], "keep": 1}}
    made.amend("GATES", **{"gate_" + "e" * 16: region, "shares": json.dumps(shares)})
    before = await admission_of(made)
    assert (set(before.admission.gates), len(before.admission.shares)) == ({OCR.id}, 1)

    await made.index.write_admission(AdmissionWrite(before=before, after=changed(before.admission, rule=None)))

    [row] = made.of("GATES")
    assert row["gate_" + "e" * 16] == region
    assert json.loads(row["shares"])["f" * 16] == shares["f" * 16]


async def test_unknown_members_survive_in_columns_that_grow() -> None:
    """Waiting queues in more columns than before, with an additional member of a later release in one of them."""
    made = await later_stores()
    before = await admission_of(made)
    [line] = before.admission.queues.values()
    lines = {number: replace(line, source="s" * 250) for number in range(100, 300)}

    longer = replace(before.admission, queues={**before.admission.queues, **lines})
    await made.index.write_admission(AdmissionWrite(before=before, after=longer))

    [row] = made.of("GATES")
    assert "lines_2" in row
    assert "of a later release" in row["lines"]
    after = await admission_of(made)
    assert (len(after.admission.queues), after.admission.queues[3]) == (201, line)
    await made.index.write_admission(
        AdmissionWrite(before=after, after=replace(after.admission, queues=before.admission.queues))
    )
    [row] = made.of("GATES")
    assert "lines_1" not in row
    assert list(missing("GATES", row)) == []


UNSAFE = [
    ("ACTIVE", "state", "RESERVED"),
    (
        "GATES",
        f"gate_{OCR.id}",
        '{"gate":{"kind":"mode","tenant":"*","name":"b"},"breaker":{"state":"HALF_SHUT"}}',
    ),
    ("BOOK", "breaker", '{"state":"HALF_SHUT"}'),
]


@pytest.mark.parametrize(("kind", "column", "value"), UNSAFE, ids=[each[0] for each in UNSAFE])
async def test_an_unknown_state_closes_its_job_or_tenant_alone(kind: str, column: str, value: str) -> None:
    """A further admission could exceed a limit."""
    made = await later_stores()
    [row] = made.of(kind)
    made.amend(kind, **{column: value})
    read = {
        "ACTIVE": lambda: made.index.read_active(TENANT, JOB),
        "GATES": lambda: made.admissions.read(TENANT),
        "BOOK": lambda: made.allocations.read(BOOK),
    }
    with pytest.raises(Undecodable) as raised:
        await read[kind]()
    assert raised.value.row == f"{row['PartitionKey']} {row['RowKey']}"
