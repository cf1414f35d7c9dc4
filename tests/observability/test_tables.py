"""The tables of metrics, spans and log records match the code, and their bounds hold."""

from __future__ import annotations

import re

import pytest

from shared.telemetry import meters
from shared.telemetry.lines import LINES
from shared.telemetry.metric_table import METRICS
from tests.observability.conftest import Telemetry
from tests.running_stack import ROOT

CODE = "\n".join(
    path.read_text()
    for folder in ("shared", "triggers", "activities")
    for path in (ROOT / folder).rglob("*.py")
    if not path.name.endswith("_table.py")
)


def test_the_table_has_the_metrics_of_the_code_and_no_other() -> None:
    """No row without code, no code without a row."""
    in_code = set(re.findall(r'\b(?:increment|observe|set_gauge)\(\s*"([a-z_.]+)"', CODE))
    assert {metric.name for metric in METRICS} == in_code


def test_the_table_has_the_lines_of_the_code_and_no_other() -> None:
    """The `event` of a line is in the table; those of EVENT rows are the types that the core writes."""
    lines = set(re.findall(r'\b(?:info|warn)\(\s*"([A-Z_]+)"', CODE))
    named = {line.event for line in LINES}
    assert lines - named == set(), "add them to shared/telemetry/lines.py"
    events = {name for name in named - lines if f'"{name}"' not in CODE}
    # these are put together from the control, or are the name of a cause
    assert events <= {f"{control}_REQUESTED" for control in ("CANCEL", "PAUSE", "RESUME")}


def test_no_attribute_is_an_id() -> None:
    """No attribute creates a time series per job; the tenant is an attribute of two metrics only."""
    attributes = {attribute for metric in METRICS for attribute in metric.attributes}
    assert not {name for name in attributes if name.lower().endswith("id") or "job_id" in name}
    assert {metric.name for metric in METRICS if "tenant" in metric.attributes} == {
        "job_queue_depth",
        "quota_exceeded_total",
    }


def test_an_attribute_has_at_most_a_hundred_values(emitted: Telemetry) -> None:
    """Further values are counted together as `_other`."""
    for number in range(meters.MAX_VALUES + 20):
        meters.increment("quota_exceeded_total", tenant=f"t{number}", limit="LUCIUS_MAX_INFLIGHT")
    points = emitted.points()
    assert len(points) == meters.MAX_VALUES + 1
    assert points[("quota_exceeded_total", (("limit", "LUCIUS_MAX_INFLIGHT"), ("tenant", meters.OTHER)))] == 20


def test_an_attribute_that_the_table_does_not_name_is_refused() -> None:
    """A job id cannot slip in."""
    with pytest.raises(ValueError, match="no attribute job_id"):
        meters.increment("job_started_total", job_id="job_1")


def test_prose_is_no_reason(emitted: Telemetry) -> None:
    """A service's error code that is a text is counted under `_other`."""
    meters.increment("job_failures_total", jobType="OCR", reason="the file /secret.pdf is bad")
    assert emitted.points() == {("job_failures_total", (("jobType", "OCR"), ("reason", meters.OTHER))): 1}
