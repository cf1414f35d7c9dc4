"""Every span: its name, kind, parent and meaning. The table in docs/reference/observability.md is generated from this
module.

Orchestrators make no spans, since the engine replays orchestrators. Activities and triggers make spans.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class SpanName(StrEnum):
    """Names of spans. Values replace the braces. No value is an id."""

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
    SpanRow(SpanName.REQUEST, "server", "the caller's `traceparent` header", "An HTTP request, except health checks"),
    SpanRow(
        SpanName.SUBMIT,
        "internal",
        "the job request's `traceparent`, or the HTTP request if the `traceparent` is unset or of the same trace",
        "Creation of a job. In a batch, a job request without `traceparent` begins its own trace. A span outside the "
        "trace of the HTTP request is linked to that request. A duplicate is linked to the first job",
    ),
    SpanRow(
        SpanName.JOB,
        "internal",
        "the job's `submit`",
        "From the POST to the last row of the job. The app emits the span when the job ends",
    ),
    SpanRow(
        SpanName.ATTEMPT,
        "internal",
        "`job`",
        "From the record of the attempt until the attempt ends. The directive's `traceparent` has the context of the "
        "span. Linked to the previous attempt",
    ),
    SpanRow(
        SpanName.DISPATCH,
        "internal",
        "`job`",
        "Records an attempt, or finds the attempt that the previous step's RESULT recorded. Sends the directive. "
        "`lucius.verdict` has the result",
    ),
    SpanRow("send global-bus-p{lane}", "producer", "`attempt`", "Sends the directive to Service Bus"),
    SpanRow(
        "process global-bus-p{lane}",
        "consumer",
        "`attempt`, by the directive's `traceparent`",
        "Work of the service, from the arrival of the directive until the RESULT is sent",
    ),
    SpanRow("execute {step_type}", "internal", "the service's `process`", "Execution of the step by the service"),
    SpanRow(
        "send global-bus-replies-p{lane}",
        "producer",
        "the service's `process`",
        "Sends an ACK, HEARTBEAT or RESULT to Service Bus",
    ),
    SpanRow(
        "process global-bus-replies-p{lane}",
        "consumer",
        "the reply's `traceparent` if it is of the job's trace, else `attempt`",
        "Application of a reply. The name is `process callback` for a reply over HTTP, and `process redrive` for a "
        "redriven message; both are internal and linked to the HTTP request. Linked to the attempt or, if `attempt` "
        "is the parent, to the reply's `traceparent`",
    ),
    SpanRow(
        SpanName.SETTLE,
        "internal",
        "`job`",
        "Ends the attempt if no ACK, heartbeat or RESULT arrived in time, and returns the next action of the "
        "orchestration. Starts after a timer of the orchestration, or in a sweep",
    ),
    SpanRow(SpanName.SWEEP, "internal", "none", "One sweep with all its duties"),
)
