"""Release 0.2.0, by its own code, beside this one on the same tables: jobs wait for their gates, and a feed follows."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from shared.adapters.blobs import BlobTexts
from shared.adapters.memory import MemoryLedger
from shared.adapters.tables.account import TablesAccount
from shared.adapters.tables.books import TablesBooks
from shared.adapters.tables.bulks import TablesBulks
from shared.adapters.tables.desks import TablesDesks
from shared.adapters.tables.feed import TablesFeed
from shared.adapters.tables.incidents import TablesIncidents
from shared.adapters.tables.index import TablesIndex
from shared.adapters.tables.ledger import TablesLedger
from shared.core.gates.desk import Desk
from shared.core.public_events import public_events
from shared.errors import LedgerUnavailable
from shared.operations.desk_counts import place_of
from shared.operations.gate_directory import GateDirectory
from shared.operations.hinting import Hinting
from shared.operations.known_feeds import KnownFeeds
from shared.operations.tell import take_hints
from shared.refusals import LimitReached
from tests.azurite import running_azurite
from tests.jobs import ROOT
from tests.memory_bus import MemoryHints
from tests.operations.conftest import World, built
from tests.operations.support import cancelled, create_numbered, limited, swept

OLDER = "v0.2.0"


class SideBySide:
    """This version's world and the older one's code, over one store and at one time."""

    def __init__(self, world: World, hints: MemoryHints, connection: str, own: str, tree: Path) -> None:
        self.world = world
        self._hints = hints
        self._asked = {"connection": connection, "own": own}
        self._tree = tree

    def older(self, *calls: tuple[str, Any], job_id: str = "", **limits: int) -> list[Any]:
        seconds = (self.world.clock.now() - built(MemoryLedger()).clock.now()).total_seconds()
        asked = {**self._asked, "calls": calls, "job_id": job_id, "limits": limits, "seconds": seconds}
        script = self._tree / "tests" / "rollout" / "older.py"
        shutil.copy(ROOT / "tests" / "rollout" / "older.py", script)
        done = subprocess.run(
            [sys.executable, "-m", "tests.rollout.older", json.dumps(asked)],
            cwd=self._tree,
            env={"PYTHONPATH": str(self._tree), "PATH": ""},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        found: list[Any] = json.loads(done.stdout.splitlines()[-1])
        return found

    async def status(self, *job_ids: str) -> list[str]:
        found = [await self.world.context.ledger.read(job_id) for job_id in job_ids]
        return [stored.record.job.status.value for stored in found if stored is not None]

    async def desk(self) -> Desk:
        stored = await self.world.context.desks.read("tenant_a")
        assert stored is not None
        return stored.desk

    async def fed(self) -> int:
        """What was hinted at goes into the feed; how many hints it was."""
        context, sent = self.world.context, self._hints.sent
        assert context.hinting is not None
        await context.hinting.settle()
        hints = [hint for hint, _ in sent]
        sent.clear()
        await take_hints(context, hints)
        return len(hints)

    async def in_feed(self, job_id: str) -> tuple[list[str], list[str]]:
        """The job's events as the feed has them, and as its EVENT rows mean them."""
        context = self.world.context
        assert context.feed is not None
        events = await context.feed.events("tenant_a", after=0, limit=1000)
        assert [each.number for each in events] == list(range(1, len(events) + 1))
        stored, rows = await context.ledger.read(job_id), await context.ledger.events(job_id)
        assert stored is not None
        meant = [each["id"] for row in rows for each in public_events(row, stored.record.job)]
        return [each.event_id for each in events if each.job_id == job_id], meant

    async def inside(self) -> int:
        rows = await self.world.context.index.list_active("tenant_a", after=None, limit=100)
        return sum(not place_of(row).is_staged for row in rows)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """The older release's files."""
    kept = subprocess.run(["git", "archive", OLDER], cwd=ROOT, capture_output=True, check=False)
    assert kept.returncode == 0, f"the tag {OLDER} is needed: {kept.stderr.decode()}"
    tree = tmp_path / OLDER
    tree.mkdir()
    subprocess.run(["tar", "-x"], cwd=tree, input=kept.stdout, check=True)
    return tree


@pytest.fixture
async def adjacent(tmp_path: Path, tree: Path) -> AsyncIterator[SideBySide]:
    own = uuid.uuid4().hex[:12]
    with running_azurite(tmp_path) as connection:
        account = TablesAccount.connect(
            connection=connection, endpoint=None, credential=None, version_table=f"tenants{own}"
        )
        texts = BlobTexts.connect(connection=connection, endpoint=None, credential=None)
        world, hints = built(MemoryLedger()), MemoryHints()
        context = replace(
            world.context,
            ledger=TablesLedger(account, f"ledger{own}", texts),
            index=TablesIndex(account, f"index{own}", f"tenants{own}"),
            desks=TablesDesks(account, f"index{own}", f"gates{own}"),
            incidents=TablesIncidents(account, f"index{own}", f"gates{own}"),
            books=TablesBooks(account, f"gates{own}"),
            bulks=TablesBulks(account, f"index{own}", f"gates{own}"),
            gates=GateDirectory(),
            feed=TablesFeed(account, f"feed{own}", world.clock.now),
            hinting=Hinting(hints, world.clock),
            known_feeds=KnownFeeds(),
        )
        staging = limited(replace(world, context=context), max_inflight_per_tenant=1, overflow="stage")
        yield SideBySide(staging, hints, connection, own, tree)
        await account.close()
        await texts.close()


async def posted(world: World, *numbers: int) -> list[str]:
    return [(await create_numbered(world, number)).stored.record.job.job_id for number in numbers]


@pytest.mark.long
@pytest.mark.timeout(600)
async def test_release_0_2_0_meets_jobs_in_line(adjacent: SideBySide) -> None:
    """It skips and counts them; what it begins and ends past the desk is counted by the sweeper ten minutes later."""
    world = adjacent.world
    first, second = await posted(world, 1, 2)
    move = world.context.index.move_place

    async def dies(*args: Any) -> None:
        raise LedgerUnavailable("killed here")

    world.context.index.move_place = dies  # type: ignore[method-assign]
    with pytest.raises(LedgerUnavailable):
        await posted(world, 3)
    world.context.index.move_place = move  # type: ignore[method-assign]
    assert await adjacent.status(first, second) == ["QUEUED", "THROTTLED"]

    # its sweep: the one on its way into line is due, and left to this version
    world.clock.advance(61)
    [actions] = adjacent.older(("sweep", None))
    assert sorted(action.split(":")[0] for action in actions) == ["skip", "start"]
    assert (await adjacent.desk()).active == await adjacent.inside() == 1

    # it ends one that this version let in, and begins one without a look at the desk
    [_, theirs] = adjacent.older(("cancel", first), ("post", 9), job_id="job_of_0_2_0", max_inflight_per_tenant=50)
    assert await adjacent.status(first, second, theirs) == ["CANCELLED", "THROTTLED", "QUEUED"]
    assert (await adjacent.desk()).active == 1
    assert await adjacent.inside() == 1
    [_] = adjacent.older(("cancel", theirs))
    assert await adjacent.inside() == 0

    # this version's sweep: the desk is counted anew, the creation is finished, and the line moves
    world.clock.advance(600)
    await swept(world)
    assert await adjacent.status(second) == ["QUEUED"]
    desk = await adjacent.desk()
    assert (desk.active, desk.waiting, await adjacent.inside()) == (1, 1, 1)

    # what it began after that is no loss of this version's counts
    world.clock.advance(1)
    [again] = adjacent.older(("post", 10), job_id="job_of_0_2_0_b", max_inflight_per_tenant=50)
    await cancelled(world, again)
    assert (await adjacent.desk()).active == await adjacent.inside() == 1

    off = replace(world, context=replace(world.context, settings=replace(world.context.settings, staging="off")))
    with pytest.raises(LimitReached):
        await posted(off, 11)
    assert adjacent.older(("sweep", None)) != []


@pytest.mark.long
@pytest.mark.timeout(600)
async def test_release_0_2_0_hints_at_nothing(adjacent: SideBySide) -> None:
    """What it commits comes into the feed by this version's next look at the job, once and in order.

    That is the next commit, the pass over living jobs where 0.2.0 has not listed the job, and the clearing of its end.
    """
    world = adjacent.world
    first, second = await posted(world, 1, 2)
    await adjacent.fed()
    for job_id in (first, second):
        has, meant = await adjacent.in_feed(job_id)
        assert has == meant != []

    # it begins two jobs and ends one of each version's
    many = {"max_inflight_per_tenant": 50}
    [theirs] = adjacent.older(("post", 9), job_id="job_of_0_2_0", **many)
    [ended, _, _] = adjacent.older(
        ("post", 10), ("cancel", first), ("cancel", "job_of_0_2_0_b"), job_id="job_of_0_2_0_b", **many
    )
    assert await adjacent.status(first, ended, theirs) == ["CANCELLED", "CANCELLED", "QUEUED"]
    assert await adjacent.fed() == 0
    for job_id in (first, ended, theirs):
        has, meant = await adjacent.in_feed(job_id)
        assert has == meant[: len(has)]
        assert len(has) < len(meant)

    # it lists the one that lives; this version's commit brings its whole life
    world.clock.advance(61)
    adjacent.older(("sweep", None))
    await cancelled(world, theirs)
    await adjacent.fed()
    has, meant = await adjacent.in_feed(theirs)
    assert has == meant

    # both sweep until the ends are cleared
    await cancelled(world, second)
    for _ in range(4):
        await swept(world)
        await adjacent.fed()
        adjacent.older(("sweep", None))
        world.clock.advance(3600)
    for job_id in (first, second, theirs, ended):
        has, meant = await adjacent.in_feed(job_id)
        assert has == meant != [], job_id
    await swept(world)
    assert await adjacent.fed() == 0
