"""The rows of the directory of quotas: each change moves the version of its group, in the same transaction."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from shared.adapters.tables import directory as adapter
from shared.adapters.tables.columns import split_json
from shared.adapters.tables.directory import row_of_tenant
from shared.core.gates.breaker import BreakerRule
from shared.core.gates.rules import EVERY, Gate, GateKind, GateState, Hold, Rule
from shared.errors import AlreadyExists, Conflict, Contended, LedgerUnavailable, Undecodable
from shared.ports.admissions import joined
from tests.adapters.conftest import Storage
from tests.directory_table import DirectoryTable, directory_over, size_of
from tests.jobs import START

LATER = START + timedelta(minutes=7)
TYPE, PLATFORM = Gate(GateKind.TYPE, EVERY, "OCR"), Gate.over_all(GateKind.PLATFORM)
RULE = Rule(max_active=3, breaker=BreakerRule(cooldown_s=7))
HELD = GateState(gate=PLATFORM, rule=RULE, rule_seq=1, hold=Hold(reason="r", actor="a", at=START))


@pytest.fixture
def table() -> DirectoryTable:
    return DirectoryTable()


async def test_each_change_moves_the_version_of_its_group_alone(storage: Storage) -> None:
    """The group then has the change; a repetition, and the removal of a missing entry, change no version."""
    admissions = storage.admissions
    changes: list[tuple[str, Any]] = [
        ("enter_tenant", ("tenant_a", START)),
        ("enter_tenant", ("b/ü", LATER)),
        ("put_default", (TYPE, RULE, START)),
        ("put_default", (TYPE, replace(RULE, max_active=4), START)),
        ("put_over_all", (PLATFORM, HELD, START)),
        ("note_settings", (LATER,)),
        ("remove_tenant", ("b/ü",)),
        ("put_default", (TYPE, None, START)),
        ("put_over_all", (PLATFORM, None, START)),
        ("note_settings", (None,)),
    ]
    copy = await admissions.groups()
    for name, values in changes:
        before = await admissions.versions()
        await getattr(admissions, name)(*values)
        versions = await admissions.versions()
        [changed] = [group for group in versions if versions[group] != before.get(group)]
        copy[changed] = await admissions.group(changed)
        assert joined(copy.values()) == await admissions.directory()
    versions = await admissions.versions()
    await admissions.enter_tenant("tenant_a", LATER)
    await admissions.remove_tenant("b/ü")
    assert await admissions.versions() == versions
    assert (await admissions.directory()).tenants == {"tenant_a": START}


async def test_tenants_that_enter_and_leave_at_once(storage: Storage) -> None:
    """Processes that change the same rows: nothing is lost, and each row of tenants has a new version."""
    names = [f"tenant_{number}" for number in range(40)]
    await asyncio.gather(*(storage.admissions.enter_tenant(name, START) for name in names[::2]))
    before = await storage.admissions.versions()
    enter = [storage.admissions.enter_tenant(name, START) for name in names[1::2]]
    await asyncio.gather(*enter, *(storage.admissions.remove_tenant(name) for name in names[::2]))
    assert {*(await storage.admissions.directory()).tenants} == {*names[1::2]}
    after = await storage.admissions.versions()
    changed = [group for group in after if after[group] != before.get(group)]
    assert {name for group in changed for name in (await storage.admissions.group(group)).tenants} == {*names[1::2]}


@pytest.mark.parametrize("state", [HELD, None])
async def test_a_change_that_the_store_refuses_is_repeated(table: DirectoryTable, state: GateState | None) -> None:
    directory, refusals = directory_over(table), [Conflict("412"), AlreadyExists("409")]
    await directory.put_over_all(PLATFORM, replace(HELD, rule_seq=7), START)

    def refuses(kind: str, key: str) -> None:
        if kind == "transaction" and refusals:
            raise refusals.pop()

    table.before = refuses
    await directory.put_over_all(PLATFORM, state, START)
    assert (await directory.directory()).over_all == ({PLATFORM.id: (HELD, START)} if state is not None else {})


async def test_a_tenant_that_enters_and_leaves_at_the_same_time(table: DirectoryTable) -> None:
    """One of the two comes last, whole; the version is another either way."""
    for enters_first in (True, False):
        directory = directory_over(table)
        await directory.enter_tenant("tenant_a", START)
        before = await directory.versions()
        calls = [directory.enter_tenant("tenant_a", LATER), directory.remove_tenant("tenant_a")]
        await asyncio.gather(*(calls if enters_first else reversed(calls)))
        assert (await directory.directory()).tenants in ({}, {"tenant_a": LATER})
        assert await directory.versions() != before


async def test_two_changes_of_one_row_of_tenants_at_once(
    table: DirectoryTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second writer reads the row again; a row that others change at every try is an error after eight."""
    monkeypatch.setattr(adapter, "_FIRST_WAIT_S", 0)
    directory, rows = directory_over(table), defaultdict[str, list[str]](list)
    for number in range(99):
        rows[row_of_tenant(f"tenant_{number}")].append(f"tenant_{number}")
    key, names = max(rows.items(), key=lambda each: len(each[1]))
    await asyncio.gather(*(directory.enter_tenant(name, START) for name in names[:2]))
    assert {*(await directory.group(key)).tenants} == {*names[:2]}
    assert table.transactions == 3

    def changed_by_another(kind: str, row: str) -> None:
        if kind == "transaction":
            table.put(table.rows[key])

    table.before = changed_by_another
    with pytest.raises(Contended):
        await directory.enter_tenant(names[2], START)
    assert table.transactions == 3 + 8


@pytest.mark.parametrize("is_written", [False, True])
@pytest.mark.parametrize("name", ["enter_tenant", "put_default"])
async def test_a_writer_that_is_killed(table: DirectoryTable, name: str, is_written: bool) -> None:
    """Before its transaction neither the row nor the version has changed, after it both have; a repetition is done."""
    directory = directory_over(table)
    values: Any = ("tenant_a", START) if name == "enter_tenant" else (TYPE, RULE, START)

    def killed(*_: object) -> None:
        raise LedgerUnavailable("killed here")

    def killed_before(kind: str, key: str) -> None:
        if kind == "transaction":
            killed()

    if is_written:
        table.after = killed
    else:
        table.before = killed_before
    with pytest.raises(LedgerUnavailable):
        await getattr(directory, name)(*values)
    table.before = table.after = lambda *_: None
    assert bool(await directory.versions()) is bool(await directory.groups()) is is_written
    await getattr(directory, name)(*values)
    assert {*await directory.versions()} == {*await directory.groups()}


async def test_a_tenant_that_is_there_already_costs_one_read(table: DirectoryTable) -> None:
    directory = directory_over(table)
    await directory.enter_tenant("tenant_a", START)
    reads, transactions = table.reads, table.transactions
    await directory.enter_tenant("tenant_a", LATER)
    await directory.remove_tenant("tenant_b")
    assert (table.reads - reads, table.transactions - transactions) == (2, 0)


async def test_fifteen_thousand_tenants_fit(table: DirectoryTable) -> None:
    """With the longest names, in letters of four bytes: columns of 64 KiB and rows of 1 MiB are not reached."""
    directory = directory_over(table)
    rows: dict[str, list[str]] = defaultdict(list)
    for number in range(15_000):
        rows[row_of_tenant(name := f"{number:08d}{'😀' * 120}")].append(name)
    assert len(rows) == 32
    key, (last, *names) = max(rows.items(), key=lambda each: len(each[1]))
    await directory.enter_tenant(names[0], START)
    entries = {name: [START.isoformat(timespec="microseconds")] for name in names}
    table.put({**table.rows[key], **split_json("tenants", entries)})
    await directory.enter_tenant(last, LATER)
    assert {*(await directory.group(key)).tenants} == {last, *names}
    assert size_of(table.rows[key]) < 2**20 / 2
    assert max(len(value.encode("utf-16-le")) for value in table.rows[key].values()) <= 2**16


async def test_what_cannot_be_decoded_is_skipped_with_its_key(table: DirectoryTable) -> None:
    """A kind of quota of a later release, an entry of a tenant, a row of tenants; the others count."""
    directory = directory_over(table)
    await directory.enter_tenant("tenant_a", START)
    await directory.put_default(TYPE, RULE, START)
    key = next(key for key in table.rows if key.startswith("TENANTS"))
    entries = {"tenant_a": [START.isoformat(), "of a later release"], "broken": [], "none": None, "text": "x"}
    table.put({**table.rows[key], "tenants": json.dumps(entries)})
    table.put({**table.rows[f"DEFAULT:{TYPE.id}"], "RowKey": "DEFAULT:later", "kind": "REGION"})
    table.put({**table.rows[key], "RowKey": "TENANTS:list", "tenants": "[]"})
    table.put({**table.rows[key], "RowKey": "TENANTS:text", "tenants": "{"})
    table.put({"PartitionKey": "directory", "RowKey": "REGION:eu"})
    rows = await directory.directory()
    assert (rows.tenants, rows.defaults) == ({"tenant_a": START}, {(GateKind.TYPE, "OCR"): (RULE, START)})
    broken = [f"{key} broken", f"{key} none", f"{key} text"]
    assert sorted(rows.unread) == sorted(["DEFAULT:later", *broken, "TENANTS:list", "TENANTS:text"])


async def test_a_row_of_tenants_that_cannot_be_decoded_is_not_written_over(table: DirectoryTable) -> None:
    """The writer gets the row's key, and the tenants of the row stay where they are."""
    directory = directory_over(table)
    await directory.enter_tenant("tenant_a", START)
    key = next(key for key in table.rows if key.startswith("TENANTS"))
    table.put({**table.rows[key], "tenants": "{"})
    with pytest.raises(Undecodable, match=key):
        await directory.enter_tenant("tenant_a", START)
    assert table.rows[key]["tenants"] == "{"


async def test_what_a_later_release_wrote_stays(table: DirectoryTable) -> None:
    """Columns of a row, parts of a tenant's entry, members of a rule and of a quota, when this release writes them."""
    directory = directory_over(table)
    await directory.enter_tenant("tenant_a", START)
    key = row_of_tenant("tenant_a")
    later = {"tenant_a": [START.isoformat(), "more"]}
    # longer than this release writes it
    table.put({**table.rows[key], "tenants": json.dumps(later)[:9], "tenants_1": json.dumps(later)[9:], "other": 2**40})
    neighbour = next(name for number in range(999) if row_of_tenant(name := f"n{number}") == key)
    await directory.enter_tenant(neighbour, START)
    assert (await directory.directory()).tenants == {"tenant_a": START, neighbour: START}
    assert json.loads(table.rows[key]["tenants"])["tenant_a"] == later["tenant_a"]
    assert table.rows[key]["other"] == 2**40


@pytest.mark.parametrize("is_changed", [False, True])
async def test_members_that_a_later_release_wrote_stay(table: DirectoryTable, is_changed: bool) -> None:
    """Those of the quota, its rule, its breaker and its hold; a changed rule or hold is written as this release knows
    it.
    """
    directory = directory_over(table)
    await directory.put_default(TYPE, RULE, START)
    await directory.put_over_all(PLATFORM, HELD, START)
    default, over_all = table.rows[f"DEFAULT:{TYPE.id}"], table.rows[f"OVERALL:{PLATFORM.id}"]
    rule, state = json.loads(default["rule"]), json.loads(over_all["state"])
    later = {"later": 1}
    table.put({**default, "rule": json.dumps({**rule, **later, "breaker": {**rule["breaker"], **later}}), **later})
    table.put({**over_all, "state": json.dumps({**state, **later, "hold": {**state["hold"], **later}})})
    new_rule = Rule(max_active=1, breaker=BreakerRule()) if is_changed else RULE
    hold = Hold(reason="s", actor="a", at=LATER) if is_changed else HELD.hold
    held = replace(HELD, rule_seq=2, hold=hold)
    await directory.put_default(TYPE, new_rule, START)
    await directory.put_over_all(PLATFORM, held, START)
    default, over_all = table.rows[f"DEFAULT:{TYPE.id}"], table.rows[f"OVERALL:{PLATFORM.id}"]
    rule, state = json.loads(default["rule"]), json.loads(over_all["state"])
    assert [each.get("later") for each in (default, state)] == [1, 1]
    assert [each.get("later") for each in (rule, rule["breaker"], state["hold"])] == [None if is_changed else 1] * 3
    rows = await directory.directory()
    assert rows.defaults == {(GateKind.TYPE, "OCR"): (new_rule, START)}
    assert rows.over_all == {PLATFORM.id: (held, START)}
