"""Tables for operators: settings, reasons, alerts, metrics, spans and log records."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from infra.checks import kql
from scripts.generate.tables import markdown_table
from shared.core.jobs.reasons import Reason
from shared.older_settings import NOT_READ
from shared.operations.sweeper.duties import DUTIES, Duty
from shared.setting_values import Setting
from shared.settings import SETTINGS
from shared.telemetry.lines import LINES
from shared.telemetry.metric_table import METRICS
from shared.telemetry.span_table import SPANS

_ALERTS = Path(__file__).resolve().parents[2] / "infra" / "bicep" / "modules" / "alerts.bicep"


#: subjects of settings, each with the prefixes of its settings' names; the first match counts
_SUBJECTS = {
    "Service Bus": ("SERVICEBUS_", "TOPOLOGY_"),
    "Storage": ("STORAGE_", "TABLE_", "BLOB_", "WORKSPACE_", "LEDGER_", "INDEX_", "TENANTS_", "GATES_", "REJECTED_"),
    "Tokens and references": ("AUTH_", "ALLOWED_REF_"),
    "Events, webhooks and callbacks": (
        *("EVENTS", "FEED_", "PROGRESS_", "CALLBACK_", "WEBHOOK_"),
        *("PUBLIC_URL", "ENVIRONMENT"),
    ),
    "Quotas and the sweeper": ("MAX_INFLIGHT", "OVERFLOW", "SWEEP", "DEFAULT_MODE"),
    "Times, retries and retention": ("_SECONDS", "MAX_ATTEMPTS", "_DAYS"),
    "Protocols, audit, dashboard and other settings": ("",),
}


def settings() -> str:
    """Returns a table for each subject, in the order of the declarations."""
    found: dict[str, list[Setting]] = {subject: [] for subject in _SUBJECTS}
    for each in SETTINGS:
        found[_subject(each.name.removeprefix("LUCIUS_"))].append(each)
    return "\n\n".join(f"## {subject}\n\n{_setting_table(each)}" for subject, each in found.items())


def _subject(name: str) -> str:
    return next(
        subject
        for subject, parts in _SUBJECTS.items()
        if any(name.endswith(part) if part.startswith("_") else name.startswith(part) for part in parts)
    )


def _setting_table(found: Iterable[Setting]) -> str:
    rows = (
        (
            f"`{each.name}`",
            f"`{each.default}`" if each.default else "",
            "`tuning`" if each.tuning else "laptop" if each.local else "template",
            each.help,
        )
        for each in found
    )
    return markdown_table(("setting", "default", "set by", "meaning"), rows)


def settings_not_read() -> str:
    return markdown_table(("older setting", "set instead"), ((f"`{name}`", each) for name, each in NOT_READ.items()))


def reasons() -> str:
    """Returns every `error_code` that LUCIUS itself gives."""
    rows = ((f"`{reason}`", reason.cause, reason.what_to_do) for reason in Reason)
    return markdown_table(("`error_code`", "cause", "action"), rows)


def alerts() -> str:
    """Returns every alert rule of the template, the most severe first, with its section of the runbook."""
    rows = (
        (f"`{rule['name']}`", rule["severity"], rule["means"], _watched(rule), _section(rule["section"]))
        for rule in sorted(alert_rules(), key=lambda rule: rule["severity"])
    )
    return markdown_table(("alert", "severity", "meaning", "signal", "section"), rows)


def alert_rules() -> list[dict[str, str]]:
    """Returns the rules of alerts.bicep, as `bicep format` writes them. A rule has values by name, with texts without
    their quotes.
    """
    text = _ALERTS.read_text(encoding="utf-8")
    arrays = re.findall(r"^var (?:metric|log|audit)Alerts = \[\n(.*?)^\]", text, re.M | re.S)
    return [
        {
            name: value.strip("'")
            for name, value in re.findall(r"^    (\w+): (.*(?:\n     .*|\n    \).*)*)$", rule, re.M)
        }
        for array in arrays
        for rule in re.findall(r"^  \{\n(.*?)^  \}", array, re.M | re.S)
    ]


def _watched(rule: dict[str, str]) -> str:
    if "metric" in rule:
        return f"`{rule['metric']}`"
    (path,) = re.findall(r"loadTextContent\('(.*?)'\)", rule["query"])
    query = kql.read((_ALERTS.parent / path).read_text(encoding="utf-8"))
    return ", ".join(f"`{name}`" for name in sorted(query.names or {query.table}))


def _section(slug: str, page: str = "") -> str:
    return f"[{slug.replace('-', ' ').capitalize()}]({page}#{slug})"


def failure_reasons() -> str:
    """Returns the values of `reason` of `job_failures_total`. A withdrawn job is CANCELLED and does not count."""
    names = ", ".join(f"`{reason}`" for reason in Reason if reason is not Reason.WITHDRAWN)
    return f"`reason` of `job_failures_total` is {names}, or the error code of a service's RESULT."


def metrics() -> str:
    rows = (
        (f"`{each.name}`", each.kind, ", ".join(f"`{name}`" for name in each.attributes), each.meaning)
        for each in METRICS
    )
    return markdown_table(("metric", "kind", "attributes", "meaning"), rows)


def spans() -> str:
    rows = ((f"`{each.name}`", each.kind, each.parent, each.meaning) for each in SPANS)
    return markdown_table(("span", "kind", "parent", "meaning"), rows)


def sweeper_duties() -> str:
    """Returns the duties of a sweep, in its order."""
    return markdown_table(
        ("duty", "budget", "when", "log event of a failure"),
        ((each.name, _budget(each), _when(each), f"`{each.failure}`") for each in DUTIES),
    )


def _budget(duty: Duty) -> str:
    if duty is DUTIES[0]:
        return "no budget"
    return f"{duty.budget_s:g} s" if duty.budget_s else "rest of the earlier budgets"


def _when(duty: Duty) -> str:
    found = [
        "once an hour" if duty.hourly else "each sweep",
        *(["by the first sweeper"] if duty.first_share else []),
        *(["also in a dry run"] if duty.dry_run else []),
        *(["except in a requested sweep while `LUCIUS_SWEEPERS` is above 1"] if duty.timer_only else []),
    ]
    return ", ".join(found)


#: action of an operator after a warning: a section of the runbook, or a text. Other warnings repair themselves
_ACTIONS = {
    **dict.fromkeys(("SERVICE_SILENT",), "#unacknowledged-directives"),
    **dict.fromkeys(("DEAD_REPLIES", "DEAD_REPLIES_UNFINISHED"), "#dead-replies"),
    **dict.fromkeys(("MESSAGE_REJECTED",), "#rejected-messages"),
    "INCIDENT_OPENED": "by `kind`: [Open breaker](../guides/operations.md#open-breaker), [Unacknowledged "
    "directives](../guides/operations.md#unacknowledged-directives) or [Unreadable "
    "rows](../guides/operations.md#unreadable-rows)",
    **dict.fromkeys(("BREAKER_OPENED",), "#open-breaker"),
    **dict.fromkeys(("ROW_UNDECODABLE", "ROW_REFUSED", "DIRECTORY_UNREAD", "LEDGER_REFUSED"), "#unreadable-rows"),
    **dict.fromkeys(("EVENTS_UNSENT", "EVENTS_NEVER_SENT"), "#unsent-events"),
    **dict.fromkeys(("HOOK_SUSPENDED", "HOOK_DISABLED", "DELIVERY_DEAD"), "#suspended-webhook"),
    **dict.fromkeys(("LIMIT_REACHED",), "#saturated-tenant"),
    **dict.fromkeys(("DEPENDENCY_UNAVAILABLE", "DEPENDENCY_DOWN", "REPLY_RETRIED"), "#unreachable-dependency"),
    **dict.fromkeys(
        ("KEYS_UNAVAILABLE", "CONFIGURATION_UNAVAILABLE", "PROTOCOL_VERSIONS_UNREAD"), "#unreachable-dependency"
    ),
    "CONFIGURATION_READ": "repair the key that `protocols.problems` names",
    "PROTOCOL_VERSION_REFUSED": "raise `version` of the protocol that `protocols.problems` names",
    "SETTINGS_NOT_READ": "remove these settings, and set the settings that `replaced_by` names",
    "AUTH_NONE": "set `LUCIUS_AUTH_MODE=jwt`; no action on a local machine",
    **dict.fromkeys(
        ("DESK_CALL_UNKNOWN", "HINT_UNKNOWN", "DELIVERY_UNKNOWN"), "find the sender: only the app writes to this queue"
    ),
    "BULK_ITEM_BROKEN": "report the warning as a defect",
    "HISTORY_KEPT": "purge the orchestrations that `instances` names",
    "ARCHIVE_INVALID": "restore the blob that `blob` names",
    "ANCHOR_INCOMPLETE": "#unsigned-heads",
    "SIGNING_FAILED": "check `LUCIUS_AUDIT_KEY`, and the right of the app to sign with this key",
    "EXPORT_FAILED": "#failed-exports",
}


def log_lines() -> str:
    """Returns a table for each level, the warnings first and with the operator's action."""
    warnings = ((f"`{each.event}`", each.meaning, _action(each.event)) for each in LINES if each.level == "WARNING")
    others = ((f"`{each.event}`", each.meaning) for each in LINES if each.level != "WARNING")
    return "\n\n".join(
        [
            "### Warnings",
            "A warning without an action below needs no action, unless the warning repeats.",
            markdown_table(("`event`", "meaning", "action"), warnings),
            "### Information",
            markdown_table(("`event`", "meaning"), others),
        ]
    )


def _action(event: str) -> str:
    action = _ACTIONS.get(event, "")
    return _section(action[1:], "../guides/operations.md") if action.startswith("#") else action


#: parts that `scripts.generate` writes
PARTS = {
    "settings": settings,
    "settings-not-read": settings_not_read,
    "reasons": reasons,
    "alerts": alerts,
    "metrics": metrics,
    "failure-reasons": failure_reasons,
    "spans": spans,
    "log-lines": log_lines,
    "sweeper-duties": sweeper_duties,
}
