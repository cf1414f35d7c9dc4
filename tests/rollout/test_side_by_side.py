"""Release 0.2.0, by its own code, beside this one on the same tables, where jobs wait for their gates."""

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
from shared.adapters.tables.incidents import TablesIncidents
from shared.adapters.tables.index import TablesIndex
from shared.adapters.tables.ledger import TablesLedger
from shared.core.gates.desk import Desk
from shared.errors import LedgerUnavailable
from shared.operations.desk_counts import place_of
from shared.operations.gate_directory import GateDirectory
from shared.refusals import LimitReached
from tests.azurite import running_azurite
from tests.jobs import ROOT
from tests.operations.conftest import World, built
from tests.operations.support import cancelled, create_numbered, limited, swept

OLDER = "v0.2.0"


class SideBySide:
    """This version's world and the older one's code, over one store and at one time."""

    def __init__(self, world: World, connection: str, own: str, tree: Path) -> None:
        self.world = world
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
        world = built(MemoryLedger())
        context = replace(
            world.context,
            ledger=TablesLedger(account, f"ledger{own}", texts),
            index=TablesIndex(account, f"index{own}", f"tenants{own}"),
            desks=TablesDesks(account, f"index{own}", f"gates{own}"),
            incidents=TablesIncidents(account, f"index{own}", f"gates{own}"),
            books=TablesBooks(account, f"gates{own}"),
            bulks=TablesBulks(account, f"index{own}", f"gates{own}"),
            gates=GateDirectory(),
        )
        staging = limited(replace(world, context=context), max_inflight_per_tenant=1, overflow="stage")
        yield SideBySide(staging, connection, own, tree)
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
