"""Builds the stores over their tables and blobs, and the credentials of Azure clients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

from azure.core.credentials_async import AsyncTokenCredential

from shared.adapters.blobs import ARCHIVE, CONTAINER, EXPORTS, BlobTexts
from shared.adapters.kept_blobs import KeptBlobs, KeptInMemory
from shared.adapters.memory_tables import MemoryAccount, MemoryTexts
from shared.adapters.tables.account import TablesAccount
from shared.adapters.tables.admissions import TablesAdmissions
from shared.adapters.tables.allocations import TablesAllocations
from shared.adapters.tables.bulks import TablesBulks
from shared.adapters.tables.claim_check import TextStore
from shared.adapters.tables.export_format import ROLES
from shared.adapters.tables.exports import TablesExports
from shared.adapters.tables.feed import TablesFeed
from shared.adapters.tables.heads import TablesHeads
from shared.adapters.tables.hooks import TablesHooks
from shared.adapters.tables.incidents import TablesIncidents
from shared.adapters.tables.index import TablesIndex
from shared.adapters.tables.ledger import TablesLedger
from shared.adapters.tables.minutes import TablesMinutes
from shared.adapters.tables.protocol_versions import TablesProtocolVersions
from shared.adapters.tables.rejected import TablesRejected
from shared.adapters.tables.sweep_mark import TablesAnswers, TablesSweepMark
from shared.adapters.tables.table import Tables
from shared.adapters.tables.usage import TablesUsage
from shared.operations.process.context import Stores
from shared.ports.exports import LedgerExports
from shared.ports.feed import Feed
from shared.ports.heads import Heads
from shared.ports.hooks import Hooks
from shared.ports.ledger import Archive
from shared.ports.protocol_versions import ProtocolVersions
from shared.ports.signing import Kept
from shared.settings import Settings
from shared.time_limits import STORE, StoreLimits


@dataclass(frozen=True, kw_only=True)
class EveryStore(Stores):
    """The stores of the context, and the stores of exports, feeds, heads, webhooks and protocol versions."""

    exports: LedgerExports | None = None
    feed: Feed
    heads: Heads
    hooks: Hooks
    protocol_versions: ProtocolVersions


def every_store(settings: Settings, now: Callable[[], datetime]) -> EveryStore:
    """Returns stores in memory, or over an account. A new feed has events from `now` on. Raises ValueError for invalid
    settings of the account.
    """
    if settings.storage_backend == "memory":
        return stores_over(MemoryAccount(), MemoryTexts(), MemoryTexts(), settings, now)
    account = tables_account(settings)
    texts, archive = (blobs_of(settings, container, STORE) for container in (CONTAINER, ARCHIVE))
    stores = stores_over(account, texts, archive, settings, now)
    return replace(stores, exports=_exports(settings, account))


def stores_over(
    account: Tables, texts: TextStore, archive: Archive, settings: Settings, now: Callable[[], datetime]
) -> EveryStore:
    """Returns the stores over the tables of `account`, with the names in `settings`.

    `texts` is the store of long texts of rows. `archive` is the store of archived jobs. `now` is the
    clock: a new feed has events from the time of its creation on.
    """
    index, gates = settings.index_table, settings.gates_table
    return EveryStore(
        ledger=TablesLedger(account, settings.ledger_table, texts),
        index=TablesIndex(account, index, settings.tenants_table),
        admissions=TablesAdmissions(account, index, gates),
        allocations=TablesAllocations(account, gates),
        bulks=TablesBulks(account, index, gates),
        incidents=TablesIncidents(account, index, gates),
        rejected=TablesRejected(account, settings.rejected_table, texts),
        archive=archive,
        sweep_marks=TablesSweepMark(account, index),
        minutes=TablesMinutes(account, index),
        feed=TablesFeed(account, settings.feed_table, now),
        heads=TablesHeads(account, settings.feed_table),
        hooks=TablesHooks(account, settings.feed_table),
        protocol_versions=TablesProtocolVersions(account, gates),
        answers=TablesAnswers(account, gates),
        usage=TablesUsage(account, index),
    )


def tables_account(settings: Settings) -> TablesAccount:
    """Returns the account with the tables. Raises ValueError for invalid settings of the account."""
    return TablesAccount.connect(
        connection=settings.table_connection,
        endpoint=settings.table_endpoint,
        credential=credential_of(settings.table_connection),
        version_table=settings.tenants_table,
        other_tables=(
            *(settings.ledger_table, settings.index_table, settings.rejected_table, settings.gates_table),
            settings.feed_table,
        ),
        transport=settings.table_transport,
    )


def table_names(settings: Settings) -> dict[str, str]:
    """Returns the name of the table of each role (`shared.adapters.tables.export_format.ROLES`)."""
    return {role: str(getattr(settings, f"{role}_table")) for role in ROLES}


def export_files(settings: Settings) -> BlobTexts:
    """Returns the container for exports."""
    connection = None if settings.export_endpoint is not None else settings.blob_connection
    return BlobTexts.connect(
        connection=connection,
        endpoint=settings.export_endpoint or settings.blob_endpoint,
        credential=credential_of(connection),
        container=EXPORTS,
    )


def kept_files(settings: Settings) -> Kept:
    """Returns the store of files in the account for anchors. Default: the account with long strings."""
    if settings.storage_backend == "memory":
        return KeptInMemory()
    own = settings.audit_blob_endpoint
    connection = settings.blob_connection if own is None else None
    return KeptBlobs.connect(
        connection=connection, endpoint=own or settings.blob_endpoint, credential=credential_of(connection)
    )


def _exports(settings: Settings, account: TablesAccount) -> LedgerExports | None:
    if settings.export_days is None:
        return None
    return TablesExports(account, table_names(settings), export_files(settings), account.url)


def blobs_of(settings: Settings, container: str, limits: StoreLimits) -> BlobTexts:
    return BlobTexts.connect(
        connection=settings.blob_connection,
        endpoint=settings.blob_endpoint,
        credential=credential_of(settings.blob_connection),
        container=container,
        limits=limits,
    )


def credential_of(connection: str | None) -> AsyncTokenCredential | None:
    """Returns a `DefaultAzureCredential`, which uses the managed identity in Azure. Returns None if there is a
    connection string.
    """
    return None if connection is not None else identity()


def identity() -> AsyncTokenCredential:
    # imported late: it takes a tenth of the start-up time, and an app with connection strings does not need it
    from azure.identity.aio import DefaultAzureCredential

    # with its own retries: the identity's endpoint may need seconds after a cold start
    return DefaultAzureCredential(connection_timeout=STORE.connect_s, read_timeout=STORE.read_s)
