"""Tables for operators: settings, reasons, metrics, spans and log lines."""

from __future__ import annotations

from shared.core.reasons import Reason
from shared.settings import SETTINGS
from shared.telemetry.lines import LINES
from shared.telemetry.metric_table import METRICS, RESERVED
from shared.telemetry.span_table import SPANS


def settings() -> str:
    lines = ["| setting | default | meaning |", "|---|---|---|"]
    lines += [f"| `{each.name}` | {f'`{each.default}`' if each.default else ''} | {each.help} |" for each in SETTINGS]
    return "\n".join(lines)


def reasons() -> str:
    """Every `error_code` that LUCIUS itself gives."""
    lines = ["| `error_code` | cause | what to do |", "|---|---|---|"]
    lines += [f"| `{reason}` | {reason.cause} | {reason.what_to_do} |" for reason in Reason]
    return "\n".join(lines)


def failure_reasons() -> str:
    """The values of `reason` of `job_failures_total`; a withdrawn job is CANCELLED and does not count there."""
    names = ", ".join(f"`{reason}`" for reason in Reason if reason is not Reason.WITHDRAWN)
    return f"`reason` of `job_failures_total` is {names}, or the code that a service gave."


def metrics() -> str:
    lines = ["| metric | kind | attributes | meaning |", "|---|---|---|---|"]
    for each in METRICS:
        attributes = ", ".join(f"`{name}`" for name in each.attributes)
        lines.append(f"| `{each.name}` | {each.kind} | {attributes} | {each.meaning} |")
    return "\n".join(lines)


def reserved_metrics() -> str:
    return "\n".join(f"- `{name}`: {subject}" for name, subject in RESERVED)


def spans() -> str:
    lines = ["| span | kind | parent | meaning |", "|---|---|---|---|"]
    lines += [f"| `{each.name}` | {each.kind} | {each.parent} | {each.meaning} |" for each in SPANS]
    return "\n".join(lines)


def log_lines() -> str:
    lines = ["| `event` | level | meaning |", "|---|---|---|"]
    lines += [f"| `{each.event}` | {each.level} | {each.meaning} |" for each in LINES]
    return "\n".join(lines)


#: for `scripts.generate`
PARTS = {
    "settings": settings,
    "reasons": reasons,
    "metrics": metrics,
    "failure-reasons": failure_reasons,
    "reserved-metrics": reserved_metrics,
    "spans": spans,
    "log-lines": log_lines,
}
