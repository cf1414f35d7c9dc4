"""The app's settings. Only this module reads these settings from the environment (R25).

Each setting is declared once, as a field of `Settings`: name, format, default and help. The table of
docs/reference/settings.md and the parameter `tuning` of the Bicep are generated from here.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from shared import build
from shared import setting_values as form
from shared.access_settings import AccessSettings
from shared.contracts.envelope import OLDER_MODES
from shared.core.jobs.plan import TimingDefaults
from shared.errors import SettingsError
from shared.older_settings import NOT_READ
from shared.setting_contradictions import contradictions
from shared.setting_values import Setting, setting
from shared.store_settings import StoreSettings

#: the repository's root, with `protocols/` and `infra/bicep/topology.json`
ROOT = Path(__file__).resolve().parent.parent

#: name of the app setting that bindings and the publisher use; forms with an identity add `__fullyQualifiedNamespace`
SERVICEBUS_SETTING = "LUCIUS_SERVICEBUS_CONNECTION"
#: name of the same kind of setting for the namespace of public events
EVENTS_SETTING = "LUCIUS_EVENTS_CONNECTION"


@dataclass(frozen=True, kw_only=True)
class Settings(AccessSettings, StoreSettings):
    """The configuration of the app, read once."""

    servicebus_connection: str | None = setting(
        SERVICEBUS_SETTING,
        form.optional(form.text),
        help="Connection string of Service Bus. With managed identity, set `__fullyQualifiedNamespace` instead",
        secret=True,
        local=True,
    )
    servicebus_namespace: str | None = setting(
        f"{SERVICEBUS_SETTING}__fullyQualifiedNamespace",
        form.optional(form.text),
        help="Host name of the Service Bus namespace, for managed identity",
    )
    servicebus_admin_url: str | None = setting(
        "LUCIUS_SERVICEBUS_ADMIN_URL",
        form.optional(form.address),
        help="URL of the management API of a Service Bus emulator. Default: the URL of the namespace",
        local=True,
    )
    lanes: int = setting(
        "LUCIUS_SERVICEBUS_LANES",
        form.whole_number,
        "16",
        help="Number of lanes. Each lane has a directive topic and a reply topic",
    )
    reply_prefix: str = setting(
        "LUCIUS_SERVICEBUS_REPLY_PREFIX",
        form.topic_prefix,
        "global-bus-replies-p",
        help="Prefix of the names of reply topics, before the number of the lane",
    )
    reply_subscription: str = setting(
        "LUCIUS_SERVICEBUS_REPLY_SUBSCRIPTION",
        form.subscription_name,
        "lucius-invoker",
        help="Name of the app's subscription on every reply topic",
    )
    replies: str = setting(
        "LUCIUS_REPLIES",
        form.choice("lanes", "shared"),
        "lanes",
        help="Functions that read replies. `lanes`: one for each reply topic. `shared`: one for the queue to which the "
        "reply topics forward",
    )
    reply_queue: str = setting(
        "LUCIUS_SERVICEBUS_REPLY_QUEUE",
        form.subscription_name,
        "lucius-replies",
        help="Queue that the reply topics forward to, if LUCIUS_REPLIES is `shared`",
    )
    events: str = setting(
        "LUCIUS_EVENTS",
        form.choice("off", "feed", "topic"),
        "feed",
        help="`feed`: LUCIUS writes public events to each tenant's feed. `topic`: LUCIUS also sends public events to "
        "the topic `lucius-events`. `off`: no public events",
        tuning=True,
    )
    progress_s: float = setting(
        "LUCIUS_PROGRESS_SECONDS",
        form.at_least(5),
        "30",
        help="Minimum seconds from a step's last write to a write of new `progress` alone, at least 5. A write that "
        "renews the lease includes `progress` at any time",
        tuning=True,
    )
    #: if neither of these two is set: the namespace of directives and replies
    events_connection: str | None = setting(
        EVENTS_SETTING,
        form.optional(form.text),
        help="Connection string of the namespace with the topic `lucius-events`. Default: the namespace of the lanes. "
        "With managed identity, set `__fullyQualifiedNamespace` instead",
        secret=True,
    )
    events_namespace: str | None = setting(
        f"{EVENTS_SETTING}__fullyQualifiedNamespace",
        form.optional(form.text),
        help="Host name of the namespace with the topic `lucius-events`, for managed identity",
    )
    trace_ratio: float | None = setting(
        "LUCIUS_TRACE_RATIO",
        form.optional(form.share),
        help="Share of the traces that the app sends to Application Insights, from 0 to 1. With this setting, the "
        "app also sends every request, job and failed attempt. The share does not limit log records and metrics. "
        "Default: the sampler of `OTEL_TRACES_SAMPLER`, else 1",
    )
    feed_days: float = setting(
        "LUCIUS_FEED_DAYS",
        form.days,
        "7",
        help="Retention in days of public events in feeds, and of ended deliveries of webhooks. LUCIUS abandons older "
        "waiting deliveries",
        tuning=True,
    )
    #: no feed gets an event of an incident more than 30 days late (R88)
    change_log_days: float = setting(
        "LUCIUS_CHANGE_LOG_DAYS",
        form.days_from(32),
        "400",
        help="Retention in days, at least 32. Applies to signed heads, to log entries of quotas and deleted webhooks, "
        "and to closed incidents of breakers, services and rows. If LUCIUS_RETENTION_DAYS is unset, LUCIUS retains "
        "ended bulk operations for the same number of days",
        tuning=True,
    )
    environment: str = setting(
        "LUCIUS_ENVIRONMENT",
        form.text,
        "local",
        help="Name of this deployment, in the `source` of public events. Callback tokens, tickets and webhook secrets "
        "depend on this name. A change invalidates tokens and tickets, and changes the secrets",
    )
    max_attempts: int = setting(
        "LUCIUS_MAX_ATTEMPTS",
        form.whole_number,
        "3",
        help="Maximum attempts of a step. Failed sends do not count",
        tuning=True,
    )
    ack_timeout_s: float = setting(
        "LUCIUS_ACK_TIMEOUT_SECONDS",
        form.number,
        "30",
        help="Maximum seconds from a directive to its ACK. LUCIUS waits longer while messages wait on the lane, or "
        "while Service Bus does not respond",
        tuning=True,
    )
    lease_s: float = setting(
        "LUCIUS_STEP_RESULT_TIMEOUT_SECONDS",
        form.number,
        "900",
        help="Seconds of the lease, from the ACK. A heartbeat renews the lease",
        tuning=True,
    )
    attempt_max_s: float = setting(
        "LUCIUS_ATTEMPT_MAX_SECONDS",
        form.seconds,
        "14400",
        help="Maximum seconds of an attempt, from its ACK. A heartbeat does not extend this time",
        tuning=True,
    )
    total_timeout_s: float = setting(
        "LUCIUS_JOB_TOTAL_TIMEOUT_SECONDS",
        form.seconds,
        "604800",
        help="Maximum seconds of a job, from its creation or, if the job waited, from its admission. Time in PAUSED "
        "does not count",
        tuning=True,
    )
    dispatch_backoffs: tuple[float, ...] = setting(
        "LUCIUS_DISPATCH_BACKOFF_SECONDS",
        form.backoffs,
        "30,120,600",
        help="Seconds to wait after each failed send to Service Bus, separated by commas. If the send after the "
        "last entry fails too, the job fails",
        tuning=True,
    )
    ack_backoffs: tuple[float, ...] = setting(
        "LUCIUS_ACK_BACKOFF_SECONDS",
        form.backoffs,
        "60,300,900",
        help="Seconds to wait after each ACK timeout, separated by commas. The last entry repeats",
        tuning=True,
    )
    execution_backoffs: tuple[float, ...] = setting(
        "LUCIUS_EXECUTION_BACKOFF_SECONDS",
        form.backoffs,
        "5,30,120",
        help="Seconds to wait after each failed execution, separated by commas. The last entry repeats",
        tuning=True,
    )
    idempotency_ttl_days: float = setting(
        "LUCIUS_IDEMPOTENCY_TTL_DAYS",
        form.number,
        "30",
        help="Number of days after a job ended for which the same request returns that job",
        tuning=True,
    )
    #: None means no limit
    retention_days: float | None = setting(
        "LUCIUS_RETENTION_DAYS",
        form.optional(form.number),
        help="Retention of ended jobs in days, at least LUCIUS_IDEMPOTENCY_TTL_DAYS. Then the audit bundle moves to "
        "the blob container `lucius-archive`, and the job stays readable. Default: unlimited",
        tuning=True,
    )
    max_inflight_per_tenant: int | None = setting(
        "LUCIUS_MAX_INFLIGHT_PER_TENANT",
        form.optional(form.whole_number),
        help="Maximum active jobs of a tenant. Limits of the tenant's own quota, or for every tenant, override this "
        "setting. Default: unlimited",
        tuning=True,
    )
    overflow: str = setting(
        "LUCIUS_OVERFLOW",
        form.choice("reject", "stage"),
        "reject",
        help="Response to a request while a limit of the settings is reached, or while its quota is held or throttled. "
        "`reject`: the request returns 429. `stage`: the request returns 202, and the job waits",
        tuning=True,
    )
    max_inflight: int | None = setting(
        "LUCIUS_MAX_INFLIGHT",
        form.optional(form.whole_number),
        help="Maximum active jobs of all tenants together. Limits of the quota `platform` override this setting",
        tuning=True,
    )
    max_inflight_burst: int | None = setting(
        "LUCIUS_MAX_INFLIGHT_BURST",
        form.optional(form.whole_number),
        help="Maximum active jobs in mode BURST, of all tenants together. Limits of the quota `mode:BURST` override "
        "this setting",
        tuning=True,
    )
    sweep_schedule: str = setting(
        "LUCIUS_SWEEP_SCHEDULE",
        form.text,
        "0 * * * * *",
        help="NCRONTAB schedule of the sweeper, with seconds",
        tuning=True,
    )
    sweepers: int = setting(
        "LUCIUS_SWEEPERS",
        form.whole_number,
        "1",
        help="Number of sweepers, which are timer functions and share the tenants. Sizing: docs/explanation/scale.md",
        tuning=True,
    )
    default_mode: str = setting(
        "LUCIUS_DEFAULT_MODE",
        form.choice("DEFAULT", "BURST", older=OLDER_MODES),
        "DEFAULT",
        help="Mode of requests without a mode, if App Configuration sets none: `DEFAULT` (older name: `SAFE`) or "
        "`BURST`",
        tuning=True,
    )
    protocols_path: Path = setting(
        "LUCIUS_PROTOCOLS_PATH",
        Path,
        help="Folder of protocol files. Default: `protocols/` of the app",
        local=True,
    )
    #: if neither of these two is set: the protocol files are in effect
    appconfig_connection: str | None = setting(
        "LUCIUS_APPCONFIG_CONNECTION",
        form.optional(form.connection_string("Endpoint", "Id", "Secret")),
        help="Connection string of an App Configuration store that overrides the protocol files",
        secret=True,
        local=True,
    )
    appconfig_endpoint: str | None = setting(
        "LUCIUS_APPCONFIG_ENDPOINT",
        form.optional(form.text),
        help="Endpoint of the App Configuration store, for managed identity",
    )
    appconfig_refresh_s: float = setting(
        "LUCIUS_APPCONFIG_REFRESH_SECONDS",
        form.number,
        "30",
        help="Minimum seconds between two reads of App Configuration",
        tuning=True,
    )
    build_commit: str | None = setting(
        "LUCIUS_BUILD_COMMIT",
        form.optional(form.text),
        help="Commit shown by the health routes and the API documents. Default: the content of the app's file "
        "`BUILD_COMMIT`",
    )
    topology_path: Path = setting(
        "LUCIUS_TOPOLOGY_PATH",
        Path,
        help="Path of the bus topology file. Default: `infra/bicep/topology.json` of the app",
        local=True,
    )

    #: settings of earlier designs that are set, each with its replacement
    not_read: tuple[tuple[str, str], ...] = ()

    @property
    def sends_webhooks(self) -> bool:
        """Returns `True` if events are on and a key to sign webhooks is configured."""
        return self.events != "off" and bool(self.webhook_keys)

    @property
    def timing_defaults(self) -> TimingDefaults:
        """Returns the timings of steps whose protocol has no timings."""
        return TimingDefaults(**{each.name: getattr(self, each.name) for each in fields(TimingDefaults)})


_INHERITED = len(fields(AccessSettings)) + len(fields(StoreSettings))
#: all settings by field, in the order of the documentation
_DECLARED: dict[str, Setting] = {
    each.name: each.metadata["setting"]
    for each in (*fields(Settings)[_INHERITED:], *fields(StoreSettings), *fields(AccessSettings))
    if "setting" in each.metadata
}
SETTINGS: tuple[Setting, ...] = tuple(_DECLARED.values())


def load(environ: Mapping[str, str] | None = None) -> Settings:
    """Reads and checks all settings, by default from the process's environment.

    Raises SettingsError with the name of every invalid setting.
    """
    environ = os.environ if environ is None else environ
    defaults = _defaults(environ)
    values: dict[str, Any] = {}
    wrong: list[str] = []
    for field, declared in _DECLARED.items():
        text = environ.get(declared.name, "").strip() or defaults.get(declared.name, declared.default)
        try:
            values[field] = declared.parse(text)
        except ValueError as error:
            wrong.append(f"{declared.name} {error}")
    names = {field: declared.name for field, declared in _DECLARED.items()}
    wrong += contradictions(names, values, environ, in_azure=_in_azure(environ))
    if wrong:
        raise SettingsError("; ".join(wrong))
    not_read = tuple((name, instead) for name, instead in NOT_READ.items() if environ.get(name, "").strip())
    return Settings(**values, not_read=not_read)


def _in_azure(environ: Mapping[str, str]) -> bool:
    return bool(environ.get("WEBSITE_SITE_NAME"))


def _defaults(environ: Mapping[str, str]) -> dict[str, str]:
    """Returns the defaults that depend on the platform or on other settings."""
    in_azure = _in_azure(environ)
    blob = environ.get("LUCIUS_BLOB_CONNECTION", "").strip()
    blob_endpoint = environ.get("LUCIUS_BLOB_ENDPOINT", "").strip()
    return {
        "LUCIUS_ALLOWED_REF_SCHEMES": "https,s3,abfss" if in_azure else "https,s3,abfss,http",
        "LUCIUS_WORKSPACE_URI": f"{form.blob_uri(blob, blob_endpoint)}/workspace",
        "LUCIUS_PROTOCOLS_PATH": str(ROOT / "protocols"),
        "LUCIUS_TOPOLOGY_PATH": str(ROOT / "infra" / "bicep" / "topology.json"),
        "LUCIUS_BUILD_COMMIT": build.commit(environ, ROOT) or "",
    }
