"""Every setting of the app: its name, its default and its meaning. The table in the docs is generated from here."""

from __future__ import annotations

from typing import NamedTuple


class Setting(NamedTuple):
    """One environment variable; `default` as one would write it there, "" for none."""

    name: str
    default: str
    meaning: str


SETTINGS: tuple[Setting, ...] = (
    Setting(
        "LUCIUS_SERVICEBUS_CONNECTION",
        "",
        "Connection string of the bus; with managed identity, this name and `__fullyQualifiedNamespace` instead",
    ),
    Setting("LUCIUS_SERVICEBUS_LANES", "16", "Number of lanes: directive topics and reply topics"),
    Setting("LUCIUS_SERVICEBUS_REPLY_PREFIX", "global-bus-replies-p", "Reply topics are this and the lane's number"),
    Setting("LUCIUS_SERVICEBUS_REPLY_SUBSCRIPTION", "lucius-invoker", "The app's subscription on every reply topic"),
    Setting("LUCIUS_STORAGE_BACKEND", "tables", "`tables`, or `memory` for tests: nothing survives a restart"),
    Setting("LUCIUS_TABLE_CONNECTION", "", "Connection string of the ledger's storage account (a laptop's way)"),
    Setting("LUCIUS_TABLE_ENDPOINT", "", "Table endpoint of the ledger's account, for managed identity"),
    Setting("LUCIUS_BLOB_CONNECTION", "", "Connection string of the account for long strings and workspaces"),
    Setting("LUCIUS_BLOB_ENDPOINT", "", "Blob endpoint of that account, for managed identity"),
    Setting("LUCIUS_LEDGER_TABLE", "luciusledger", "Jobs, steps and events"),
    Setting("LUCIUS_INDEX_TABLE", "luciusindex", "Claims, active jobs and lists, by tenant"),
    Setting("LUCIUS_TENANTS_TABLE", "luciustenants", "The tenants that ever posted"),
    Setting("LUCIUS_REJECTED_TABLE", "luciusrejected", "Messages that no job could take"),
    Setting(
        "LUCIUS_WORKSPACE_URI", "", "Where attempts get their folders; default: container `workspace` of the blobs"
    ),
    Setting("LUCIUS_MAX_ATTEMPTS", "3", "Attempts a step, over all causes but publishing"),
    Setting("LUCIUS_ACK_TIMEOUT_SECONDS", "30", "Seconds from the directive to its ACK"),
    Setting(
        "LUCIUS_STEP_RESULT_TIMEOUT_SECONDS", "900", "Seconds of the lease from the ACK on, restarted by heartbeats"
    ),
    Setting("LUCIUS_DISPATCH_BACKOFF_SECONDS", "30,120,600", "Waits after a publish fault; the last repeats not"),
    Setting("LUCIUS_ACK_BACKOFF_SECONDS", "60,300,900", "Waits after an ACK time-out; the last entry repeats"),
    Setting("LUCIUS_EXECUTION_BACKOFF_SECONDS", "5,30,120", "Waits after a failed execution; the last entry repeats"),
    Setting("LUCIUS_IDEMPOTENCY_TTL_DAYS", "30", "Days after a job's end in which the same request is still that job"),
    Setting(
        "LUCIUS_RETENTION_DAYS",
        "",
        "How long a job is kept after its end, at least as long as its idempotency key; then its audit bundle goes to "
        "the blob container `lucius-archive` and its rows go; unset: for ever",
    ),
    Setting("LUCIUS_MAX_INFLIGHT_PER_TENANT", "", "Active jobs a tenant may have; exact"),
    Setting("LUCIUS_MAX_INFLIGHT", "", "Active jobs in all; a guard, counted by the sweeper"),
    Setting("LUCIUS_MAX_INFLIGHT_BURST", "", "Active jobs in mode BURST; a guard, counted by the sweeper"),
    Setting("LUCIUS_SWEEP_SCHEDULE", "0 * * * * *", "NCRONTAB schedule of the sweeper, with seconds"),
    Setting("LUCIUS_DEFAULT_MODE", "DEFAULT", "Routing where a request names none: `DEFAULT` or `BURST`"),
    Setting("LUCIUS_PROTOCOLS_PATH", "", "Folder of protocol files; default: `protocols/` of the app"),
    Setting(
        "LUCIUS_APPCONFIG_CONNECTION",
        "",
        "Connection string of an App Configuration store that rules over the protocol files (a laptop's way)",
    ),
    Setting("LUCIUS_APPCONFIG_ENDPOINT", "", "Endpoint of that store, for managed identity"),
    Setting("LUCIUS_APPCONFIG_REFRESH_SECONDS", "30", "Seconds between two looks at that store"),
    Setting("LUCIUS_BUILD_COMMIT", "", "The commit that health tells of; default: the file `BUILD_COMMIT` of the app"),
    Setting("LUCIUS_TOPOLOGY_PATH", "", "Bus topology; default: `infra/bicep/topology.json` of the app"),
    Setting("LUCIUS_PUBLIC_URL", "", "The app's own address as services see it; with keys, directives name callbacks"),
    Setting(
        "LUCIUS_CALLBACK_KEYS",
        "",
        "Keys of callback tokens, `kid:base64key` with commas between: the first signs, all verify; none: no callbacks",
    ),
    Setting("LUCIUS_AUTH_MODE", "", "`none` (refused in Azure) or `jwt`; default: `jwt` in Azure, else `none`"),
    Setting("LUCIUS_AUTH_ISSUER", "", "`iss` of callers' tokens, exactly; needed with `jwt`, as the next two"),
    Setting("LUCIUS_AUTH_AUDIENCE", "", "`aud` of callers' tokens; one of several, with commas between"),
    Setting("LUCIUS_AUTH_JWKS_URL", "", "Where the issuer publishes its keys; https, or http on loopback"),
    Setting("LUCIUS_AUTH_TENANT_CLAIM", "tenant_id", "Claim that names the caller's LUCIUS tenant"),
    Setting(
        "LUCIUS_AUTH_ALL_TENANTS_ROLE", "orch:all-tenants", "Value of `roles` that lets an operator see every tenant"
    ),
    Setting(
        "LUCIUS_ALLOWED_REF_SCHEMES", "", "Schemes of references; default: `https,s3,abfss`, and `http` on a laptop"
    ),
    Setting("LUCIUS_ALLOWED_REF_HOSTS", "", "Hosts of references, or `host/container`, matched exactly; default: any"),
)
