"""The simulation can fail: with a part of the product taken out, some world breaks a rule."""

from __future__ import annotations

import importlib
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from shared.adapters.tables.keys import active_row
from shared.core.records.canonical import encode_key
from shared.operations.sweeper.report import SweepReport
from tests.fake_tables import compare_no_etag
from tests.simulation.plans import HOSTILE, LIVES, plan_of
from tests.simulation.world import simulate

#: a lost hint comes within an hour
_LONG_ENOUGH = timedelta(hours=3)

pytestmark = pytest.mark.filterwarnings("ignore:Potential duplicate Task completion:UserWarning")


async def _nothing(*args: Any, **kwargs: Any) -> None:
    return None


def test_replies_of_foreign_leases_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """A core that accepts them lets a step succeed with another attempt's result."""
    replies = importlib.import_module("shared.core.jobs.replies")
    original = replies._find_rejection
    monkeypatch.setattr(
        replies, "_find_rejection", lambda *args: None if original(*args) == "STALE_ATTEMPT" else original(*args)
    )
    # most seeds before show nothing
    assert any(simulate(seed, plan_of(seed)).violations for seed in range(9, 39))


def test_parked_orchestrations_not_resumed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job that is cancelled while it is paused leaves its orchestration behind."""
    for name in ("ending", "control_job"):
        monkeypatch.setattr(importlib.import_module(f"shared.operations.jobs.{name}"), "resume_parked", _nothing)
    [violation] = simulate(1, LIVES["paused and cancelled"].plan).violations[:1]
    assert "waits for" in violation


def test_nobody_sweeps(monkeypatch: pytest.MonkeyPatch) -> None:
    """No process finishes the interrupted work of callers and services."""

    async def idle(*args: Any, **kwargs: Any) -> SweepReport:
        return SweepReport(dry_run=False)

    monkeypatch.setattr("tests.simulation.world.sweep", idle)
    assert any(simulate(seed, HOSTILE).violations for seed in range(60))


def test_stale_writes_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A ledger that accepts writes from stale reads loses events."""
    compare_no_etag(monkeypatch, "ledger")
    assert any(simulate(seed, plan_of(seed)).violations for seed in range(30))


def test_a_sweeper_that_repairs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The audit finds a job without progress as soon as the sweeper's period is over, not at the end of the world."""
    monkeypatch.setattr(importlib.import_module("shared.operations.sweeper.looks"), "repair", _nothing)
    # world by world, until one shows it
    reports = (simulate(seed, HOSTILE) for seed in range(3, 23))
    assert any("has had no owner since" in violation for one in reports for violation in one.violations[:1])


def test_a_job_that_no_sweep_can_find(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without its ACTIVE row an active job has no owner: the audit finds it at the event that created it."""
    memory = importlib.import_module("tests.memory_stores").MemoryIndex
    original = memory.reserve

    async def without_active_row(self: Any, job: Any, **fields: Any) -> None:
        await original(self, job, **fields)
        self.rows.remove(encode_key(job.tenant), active_row(job.job_id))

    monkeypatch.setattr(memory, "reserve", without_active_row)
    assert "nothing leads the sweeper to it" in simulate(2, plan_of(2)).violations[0]


def _feed_is_wrong(seeds: range) -> bool:
    return any(simulate(seed, replace(plan_of(seed), events=True, gates=True)).violations for seed in seeds)


def test_a_feed_that_forgets_how_far_a_job_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Events written without their SEEN row come again with the next hint."""
    memory = importlib.import_module("tests.memory_stores").MemoryFeed
    original = memory.write

    async def without_seen(self: Any, write: Any) -> Any:
        return await original(self, replace(write, seen={}, new=frozenset()))

    monkeypatch.setattr(memory, "write", without_seen)
    assert _feed_is_wrong(range(4))


def test_a_feed_that_anybody_writes_into_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without HEAD's ETag two that write at once take the same numbers."""
    compare_no_etag(monkeypatch, "feed")
    assert _feed_is_wrong(range(10))


def test_an_end_that_nobody_compares_with_the_feed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last hint of a job is lost, and its end is in no feed."""

    async def never(*args: Any, **kwargs: Any) -> bool:
        return False

    retention = importlib.import_module("shared.operations.sweeper.retention")
    monkeypatch.setattr(retention, "is_behind", never)
    # the check of heads would find it too
    monkeypatch.setattr("tests.simulation.heads.Heads.prune", never)
    monkeypatch.setattr("tests.simulation.feeds.LOST", 0.5)
    assert _feed_is_wrong(range(1, 11))


@pytest.mark.parametrize("unread", ["how far the feed is", "ended jobs"])
def test_heads_that_count_as_complete_too_early(monkeypatch: pytest.MonkeyPatch, unread: str) -> None:
    """A check that does not compare living and ended jobs with the feed: windows are signed without their heads."""
    module = importlib.import_module("shared.operations.audit.complete_heads")

    async def never(*_: Any) -> None:
        return None

    if unread == "ended jobs":
        monkeypatch.setattr(module, "_UNCOMPARED", timedelta(days=-1000))
    else:
        monkeypatch.setattr(module._Check, "_history", never)
    monkeypatch.setattr("tests.simulation.feeds.LOST", 0.5)
    assert _feed_is_wrong(range(4, 10, 5))


def test_a_process_that_writes_twice_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reads of one batch, while another one writes, use an older HEAD."""
    known_feeds = importlib.import_module("shared.operations.process.known_feeds")

    class NoTurn:
        async def __aenter__(self) -> None:
            return None

        async def __aexit__(self, *raised: object) -> None:
            return None

    original = known_feeds.KnownFeed

    def without_turn(head: Any) -> Any:
        return original(head, turn=NoTurn())

    monkeypatch.setattr(known_feeds, "KnownFeed", without_turn)
    assert _feed_is_wrong(range(1, 11))


def test_logs_that_nobody_compares_with_the_feeds(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last hint at a gate or an incident is lost, and its event is in no feed (R79)."""
    monkeypatch.setattr(importlib.import_module("shared.operations.sweeper.duties"), "compare_logs", _nothing)
    # the check of heads would find it too
    monkeypatch.setattr("tests.simulation.heads.Heads.prune", _nothing)
    monkeypatch.setattr("tests.simulation.feeds.LOST", 0.5)
    monkeypatch.setattr("tests.simulation.world.MAX_SETTLING", _LONG_ENOUGH)
    assert _feed_is_wrong(range(4))


def test_a_gate_that_is_forgotten_before_its_feed_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its last entry is in no feed, and nothing leads to its log."""
    changes = importlib.import_module("shared.core.gates.changes")
    original = changes.apply_change

    def at_once(*args: Any, is_fed: bool) -> Any:
        return original(*args)

    monkeypatch.setattr(changes, "apply_change", at_once)
    monkeypatch.setattr("tests.simulation.feeds.LOST", 0.5)
    monkeypatch.setattr("tests.simulation.world.MAX_SETTLING", _LONG_ENOUGH)
    assert _feed_is_wrong(range(10))


def test_a_head_that_is_ahead_of_the_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    """No process relays the events of a process that died before its send."""
    memory = importlib.import_module("tests.memory_stores").MemoryFeed
    original = memory.write

    async def sent_at_once(self: Any, write: Any) -> Any:
        head = await original(self, write)
        self.put_sent(write.tenant, head.number)
        return replace(head, sent=head.number)

    monkeypatch.setattr(memory, "write", sent_at_once)
    assert _feed_is_wrong(range(10))
