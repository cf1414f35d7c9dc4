"""Settings about storage accounts: tables, blobs and exports."""

from __future__ import annotations

from dataclasses import dataclass

from shared import setting_values as form
from shared.setting_values import setting


@dataclass(frozen=True, kw_only=True)
class StoreSettings:
    """The part of `shared.settings.Settings` about rows, long strings and exports."""

    storage_backend: str = setting(
        "LUCIUS_STORAGE_BACKEND",
        form.choice("tables", "memory", older={"table": "tables", "ledger": "tables"}),
        "tables",
        help="`tables` (older names: `table`, `ledger`), or `memory` for tests. With `memory` a restart loses all "
        "data, and the app refuses to start in Azure",
    )
    table_connection: str | None = setting(
        "LUCIUS_TABLE_CONNECTION",
        form.optional(form.text),
        help="Connection string of the ledger's storage account, for local stacks",
        secret=True,
        local=True,
    )
    table_endpoint: str | None = setting(
        "LUCIUS_TABLE_ENDPOINT",
        form.optional(form.trusted_address),
        help="Table endpoint of the ledger's storage account, for managed identity; https",
    )
    table_transport: str = setting(
        "LUCIUS_TABLE_TRANSPORT",
        form.choice("direct", "sdk"),
        "direct",
        help="Client of the Table service. `direct`: the app's own HTTP client. `sdk`: Microsoft's SDK, which needs "
        "more CPU",
        tuning=True,
    )
    blob_connection: str | None = setting(
        "LUCIUS_BLOB_CONNECTION",
        form.optional(form.text),
        help="Connection string of the storage account for long strings and archived jobs, and by default for "
        "workspaces, exports and anchors",
        secret=True,
        local=True,
    )
    blob_endpoint: str | None = setting(
        "LUCIUS_BLOB_ENDPOINT",
        form.optional(form.trusted_address),
        help="Blob endpoint of the storage account for long strings and archived jobs, and by default for workspaces, "
        "exports and anchors; for managed identity; https",
    )
    ledger_table: str = setting(
        "LUCIUS_LEDGER_TABLE", form.table_name, "luciusledger", help="Table of jobs, steps and events"
    )
    index_table: str = setting(
        "LUCIUS_INDEX_TABLE",
        form.table_name,
        "luciusindex",
        help="Table of rows by tenant, for example idempotency records, active jobs, job lists, quotas, incidents of "
        "jobs, bulk operations and usage. The table also has the times of sweeps and the counts of the overview",
    )
    tenants_table: str = setting(
        "LUCIUS_TENANTS_TABLE",
        form.table_name,
        "luciustenants",
        help="Table of tenants that have submitted a job. The table also has the version of the store",
    )
    gates_table: str = setting(
        "LUCIUS_GATES_TABLE",
        form.table_name,
        "luciusgates",
        help="Table of quotas over all tenants, of incidents of breakers, services and rows, and of the tenants that "
        "have quotas. The table also has the steps of protocol versions, the last replies of services, and the times "
        "of the sweeper's checks of bulk operations",
    )
    rejected_table: str = setting(
        "LUCIUS_REJECTED_TABLE", form.table_name, "luciusrejected", help="Table of messages that no job could accept"
    )
    feed_table: str = setting(
        "LUCIUS_FEED_TABLE",
        form.table_name,
        "luciusfeed",
        help="Table of public events in order for each tenant, of signed heads and of webhooks",
    )
    #: None means no exports
    export_days: float | None = setting(
        "LUCIUS_EXPORT_DAYS",
        form.optional(form.number),
        help="Retention in days of the daily exports of the tables, in the blob container `lucius-exports`. If "
        "unset, there are no exports",
        tuning=True,
    )
    export_endpoint: str | None = setting(
        "LUCIUS_EXPORT_ENDPOINT",
        form.optional(form.trusted_address),
        help="Blob endpoint of another storage account for the exports; https. Default: the account of "
        "LUCIUS_BLOB_ENDPOINT or LUCIUS_BLOB_CONNECTION",
        tuning=True,
    )
