"""One test suite for a port, over the memory and the real tables."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

import pytest

from shared.adapters.blobs import BlobTexts
from shared.adapters.tables.account import TablesAccount
from shared.adapters.tables.admissions import TablesAdmissions
from shared.adapters.tables.allocations import TablesAllocations
from shared.adapters.tables.bulks import TablesBulks
from shared.adapters.tables.feed import TablesFeed
from shared.adapters.tables.hooks import TablesHooks
from shared.adapters.tables.incidents import TablesIncidents
from shared.adapters.tables.index import TablesIndex
from shared.adapters.tables.ledger import TablesLedger
from shared.adapters.tables.protocol_versions import TablesProtocolVersions
from shared.adapters.tables.rejected import TablesRejected
from shared.ports.admissions import AdmissionStates
from shared.ports.allocations import Allocations
from shared.ports.bulks import Bulks
from shared.ports.feed import Feed
from shared.ports.hooks import Hooks
from shared.ports.incidents import Incidents
from shared.ports.index import Index
from shared.ports.ledger import Ledger
from shared.ports.protocol_versions import ProtocolVersions
from shared.ports.rejected import RejectedMessages
from tests.azurite import running_azurite
from tests.fake_tables import FakeAccount
from tests.jobs import START
from tests.memory_stores import MemoryAllocations, MemoryBulks, MemoryFeed, MemoryIndex, MemoryLedger, MemoryRejected


@dataclass
class Storage:
    ledger: Ledger
    index: Index
    rejected: RejectedMessages
    admissions: AdmissionStates
    incidents: Incidents
    allocations: Allocations
    bulks: Bulks
    feed: Feed
    hooks: Hooks
    protocol_versions: ProtocolVersions


@pytest.fixture(scope="session")
def azurite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_azurite(tmp_path_factory.mktemp("azurite")) as connection:
        yield connection


@pytest.fixture(params=["memory", "tables"])
async def storage(request: pytest.FixtureRequest) -> AsyncIterator[Storage]:
    if request.param == "memory":
        index = MemoryIndex()
        incidents, allocations, bulks, feed = index.incidents, MemoryAllocations(), MemoryBulks(), MemoryFeed()
        versions = TablesProtocolVersions(FakeAccount(), "gates")
        yield Storage(
            *(MemoryLedger(), index, MemoryRejected(), index.admissions, incidents, allocations, bulks),
            *(feed, feed.hooks, versions),
        )
        return
    connection = request.getfixturevalue("azurite")
    own = uuid.uuid4().hex[:12]
    account = TablesAccount.connect(
        connection=connection, endpoint=None, credential=None, version_table=f"tenants{own}"
    )
    texts = BlobTexts.connect(connection=connection, endpoint=None, credential=None)
    yield Storage(
        TablesLedger(account, f"ledger{own}", texts),
        TablesIndex(account, f"index{own}", f"tenants{own}"),
        TablesRejected(account, f"rejected{own}", texts),
        TablesAdmissions(account, f"index{own}", f"gates{own}"),
        TablesIncidents(account, f"index{own}", f"gates{own}"),
        TablesAllocations(account, f"gates{own}"),
        TablesBulks(account, f"index{own}", f"gates{own}"),
        TablesFeed(account, f"feed{own}", lambda: START),
        TablesHooks(account, f"feed{own}"),
        TablesProtocolVersions(account, f"gates{own}"),
    )
    await account.close()
    await texts.close()
