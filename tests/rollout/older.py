"""One call of release 0.2.0's own code on the tables of a test; run in its tree, with JSON as the argument."""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import replace
from typing import Any

from shared.adapters.blobs import BlobTexts
from shared.adapters.memory import MemoryLedger
from shared.adapters.tables.account import TablesAccount
from shared.adapters.tables.index import TablesIndex
from shared.adapters.tables.ledger import TablesLedger
from tests.operations.conftest import World, built
from tests.operations.support import cancelled, create_numbered, limited, swept


async def call(world: World, name: str, value: Any) -> Any:
    match name:
        case "sweep":
            return await swept(world)
        case "cancel":
            return await cancelled(world, value)
        case "post":
            return (await create_numbered(world, value)).stored.record.job.job_id
    raise ValueError(name)


async def main(asked: dict[str, Any]) -> None:
    own, connection = asked["own"], asked["connection"]
    account = TablesAccount.connect(
        connection=connection, endpoint=None, credential=None, version_table=f"tenants{own}"
    )
    texts = BlobTexts.connect(connection=connection, endpoint=None, credential=None)
    world = built(MemoryLedger())
    context = replace(
        world.context,
        ledger=TablesLedger(account, f"ledger{own}", texts),
        index=TablesIndex(account, f"index{own}", f"tenants{own}"),
        new_job_id=lambda: asked["job_id"],
    )
    world = replace(world, context=context)
    world.clock.advance(asked["seconds"])
    world = limited(world, **asked["limits"])
    found = [await call(world, name, value) for name, value in asked["calls"]]
    await account.close()
    await texts.close()
    print(json.dumps(found))


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))
