"""Settings of earlier designs of LUCIUS that the app does not read, and their replacements.

Such a setting has no effect. At its start, the app logs each such setting with its replacement.
"""

from __future__ import annotations

_LEDGER = "`LUCIUS_LEDGER_TABLE`: jobs, steps and events share one table"
_INDEX = "`LUCIUS_INDEX_TABLE`: idempotency records, active jobs and counts share one table"
_ENGINE = "the storage provider of Durable Functions in `host.json`: no other engine runs the jobs"
_HUB = "`TASKHUB_NAME`, the task hub of Durable Functions"

#: replacement by name of the setting
NOT_READ: dict[str, str] = {
    "LUCIUS_JOBS_TABLE": _LEDGER,
    "LUCIUS_STEPS_TABLE": _LEDGER,
    "LUCIUS_IDEMPOTENCY_TABLE": _INDEX,
    "LUCIUS_JOB_INDEX_TABLE": _INDEX,
    "LUCIUS_INFLIGHT_TABLE": _INDEX,
    "LUCIUS_OUTBOX_RETRY_INTERVAL": "`LUCIUS_DISPATCH_BACKOFF_SECONDS`, and `LUCIUS_SWEEP_SCHEDULE` for lost messages",
    "LUCIUS_INVOKER_URL": "no setting: the app sends directives itself",
    "LUCIUS_TEMPORAL_ENABLED": "no setting: every admitted job has an orchestration",
    "LUCIUS_TEMPORAL_ADDRESS": _ENGINE,
    "LUCIUS_TEMPORAL_NAMESPACE": _HUB,
    "LUCIUS_TEMPORAL_TASK_QUEUE": _HUB,
    "LUCIUS_TEMPORAL_WORKFLOW_EXECUTION_TIMEOUT": "`LUCIUS_JOB_TOTAL_TIMEOUT_SECONDS`",
}
