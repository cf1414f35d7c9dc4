"""Every span: its name, kind, parent and meaning. Source of the table in docs/reference/observability.md.

Orchestrators make no spans, since they are replayed; activities and triggers do.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class SpanName(StrEnum):
    """Names of spans. Values replace the braces; none of them is an id."""

    REQUEST = "{method} {route}"
    SUBMIT = "submit {job_type}"
    JOB = "job {job_type}"
    ATTEMPT = "attempt {step_type}"
    DISPATCH = "dispatch {step_type}"
    SEND_DIRECTIVE = "send {topic}"
    PROCESS_REPLY = "process {topic}"
    SETTLE = "settle {step_type}"
    SWEEP = "sweep"


class SpanRow(NamedTuple):
    """One row of the table of spans."""

    name: str
    kind: str
    parent: str
    meaning: str


SPANS: tuple[SpanRow, ...] = (
    SpanRow(SpanName.REQUEST, "server", "the caller's `traceparent` header", "An HTTP request"),
    SpanRow(
        SpanName.SUBMIT,
        "internal",
        "the job request's `traceparent`, else the HTTP request",
        "Creation of a job; in a batch each line begins a trace of its own, linked to the request. A duplicate "
        "is linked to the first job",
    ),
    SpanRow(SpanName.JOB, "internal", "its `submit`", "From POST to the last row; emitted when the job ends"),
    SpanRow(
        SpanName.ATTEMPT,
        "internal",
        "`job`",
        "From its record to its end; its context is the directive's `traceparent`. Linked to the attempt before",
    ),
    SpanRow(SpanName.DISPATCH, "internal", "`job`", "The activity: record and publish, with its verdict"),
    SpanRow("send global-bus-p{lane}", "producer", "`attempt`", "The directive on its way to the bus"),
    SpanRow(
        "process global-bus-p{lane}",
        "consumer",
        "`attempt`, by the directive's `traceparent`",
        "The service, from its ACK to its RESULT",
    ),
    SpanRow("execute {step_type}", "internal", "the service's `process`", "The work itself"),
    SpanRow(
        "send global-bus-replies-p{lane}",
        "producer",
        "the service's `process`",
        "ACK, HEARTBEAT or RESULT on its way to the bus",
    ),
    SpanRow(
        "process global-bus-replies-p{lane}",
        "consumer",
        "the reply's `traceparent`, else `attempt`",
        "Application of a reply (`process callback` if it came over HTTP). Linked to the attempt",
    ),
    SpanRow(SpanName.SETTLE, "internal", "`job`", "The activity after a timer: reads the ledger, returns a verdict"),
    SpanRow(SpanName.SWEEP, "internal", "none", "One sweep"),
)
