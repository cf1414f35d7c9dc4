"""Spans and counts of transitions, over the memory ledger, and none twice."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from datetime import timedelta

import pytest

from shared import telemetry
from shared.errors import Contended, LedgerUnavailable
from shared.operations.jobs.create_job import create_job
from shared.operations.jobs.replies.apply import apply_reply, validate_reply
from shared.operations.jobs.replies.receive import ReplyMessage, receive_reply
from shared.operations.jobs.settle_step import settle_step
from shared.refusals import LimitReached
from shared.telemetry import tracing
from shared.telemetry.spans import request_span
from tests.jobs import envelope
from tests.observability.conftest import MARKER, Telemetry
from tests.observability.moves import dispatched, replied, submitted
from tests.operations.conftest import World
from triggers.http.problems import problem_response

CALLER = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


async def test_a_retry_is_counted_once_however_often_its_reply_comes(world: World, emitted: Telemetry) -> None:
    """The same failed RESULT, delivered twice, is one retry and one attempt's span."""
    job_id = await submitted(world, request_type="OCR", payload={})
    directive = await dispatched(world, job_id, "ocr")
    for _ in range(2):
        await replied(world, directive, "RESULT", status="FAILED_RETRY", error={"code": "BUSY", "message": MARKER})
    points = emitted.points()
    assert points[("job_retry_total", (("cause", "RESULT"), ("jobType", "OCR"), ("stepType", "OCR")))] == 1
    assert points[("replies_total", (("outcome", "APPLIED"), ("type", "RESULT")))] == 1
    assert [span.name for span in emitted.spans].count("attempt OCR") == 1


async def test_the_attempts_of_a_step_are_linked(world: World, emitted: Telemetry) -> None:
    """Each directive carries its attempt's own context, in the job's trace; the second attempt links to the first."""
    job_id = await submitted(world, request_type="OCR", payload={}, traceparent=CALLER)
    first = await dispatched(world, job_id, "ocr")
    await replied(world, first, "RESULT", status="FAILED_RETRY", error={"code": "BUSY"})
    world.clock.advance(60)
    second = await dispatched(world, job_id, "ocr")
    await replied(world, second, "RESULT")
    contexts = [tracing.parse_traceparent(directive.traceparent) for directive in (first, second)]
    assert {f"{context.trace_id:032x}" for context in contexts if context} == {CALLER.split("-")[1]}
    attempts = [span for span in emitted.spans if span.name == "attempt OCR"]
    assert [span.context.span_id for span in attempts] == [context.span_id for context in contexts if context]
    assert [link.context.span_id for link in attempts[1].links] == [attempts[0].context.span_id]
    assert {span.parent.span_id for span in attempts if span.parent} == {
        emitted.span("job OCR").context.span_id  # type: ignore[union-attr]  # a finished span has one
    }


async def test_a_second_publish_of_an_attempt_carries_the_same_context(world: World, emitted: Telemetry) -> None:
    """The bus must recognize a duplicate: the directive is the same to the byte."""
    job_id = await submitted(world, request_type="OCR", payload={})
    first = await dispatched(world, job_id, "ocr")
    assert await dispatched(world, job_id, "ocr") == first


async def test_a_reply_without_context_joins_its_attempt(world: World, emitted: Telemetry) -> None:
    """The reply of a service without traces has a span in the job's trace; a foreign context becomes a link."""
    job_id = await submitted(world, request_type="OCR", payload={})
    directive = await dispatched(world, job_id, "ocr")
    await replied(world, directive, "ACK")
    await replied(world, directive, "RESULT", traceparent=CALLER)
    attempt = tracing.parse_traceparent(directive.traceparent)
    assert attempt is not None
    taken = [span for span in emitted.spans if span.name.startswith("process global-bus-replies-p")]
    assert [span.parent.span_id for span in taken if span.parent] == [attempt.span_id] * 2
    assert [f"{link.context.trace_id:032x}" for link in taken[1].links] == [CALLER.split("-")[1]]


async def test_a_duplicate_request_is_linked_to_the_first_job(world: World, emitted: Telemetry) -> None:
    """The second POST has its own trace, which names the job's."""
    await submitted(world)
    await submitted(world)
    first, second = (span for span in emitted.spans if span.name == "submit OCR_EMBEDDING_SIS")
    assert first.context.trace_id != second.context.trace_id
    assert [link.context.span_id for link in second.links] == [first.context.span_id]
    assert emitted.points()[("job_started_total", (("jobType", "OCR_EMBEDDING_SIS"), ("mode", "DEFAULT")))] == 1


async def test_time_outs_failures_and_latencies_are_counted(world: World, emitted: Telemetry) -> None:
    """For a job whose service never replies: three time-outs, two retries, one failure with its reason."""
    job_id = await submitted(world, request_type="OCR", payload={})
    for attempt_no in range(1, 4):
        await dispatched(world, job_id, "ocr")
        world.clock.advance(31)
        await settle_step(
            world.context, world.orchestrations, job_id=job_id, instance_id=job_id, step_id="ocr", attempt_no=attempt_no
        )
        world.clock.advance(2000)
    points = emitted.points()
    assert points[("step_timeouts_total", (("cause", "ACK_TIMEOUT"), ("stepType", "OCR")))] == 3
    assert points[("job_retry_total", (("cause", "ACK_TIMEOUT"), ("jobType", "OCR"), ("stepType", "OCR")))] == 2
    assert points[("job_failures_total", (("jobType", "OCR"), ("reason", "ATTEMPTS_EXHAUSTED")))] == 1
    assert points[("job_latency_seconds", (("jobType", "OCR"), ("phase", "total")))] == 1
    assert points[("dispatch_lag_seconds", (("stepType", "OCR"),))] == 3


async def test_a_limit_is_counted_by_tenant(world: World, emitted: Telemetry) -> None:
    """A 429 names its limit and its tenant."""
    context = replace(world.context, settings=replace(world.context.settings, max_inflight_per_tenant=1))
    await create_job(context, world.orchestrations, envelope(), correlation_id=None)
    with pytest.raises(LimitReached):
        await create_job(context, world.orchestrations, envelope(idempotency_key="2"), correlation_id=None)
    key = (("limit", "LUCIUS_MAX_INFLIGHT_PER_TENANT"), ("tenant", "tenant_a"))
    assert emitted.points()[("quota_exceeded_total", key)] == 1
    assert emitted.span("submit ").attributes["error.type"] == "LIMIT_REACHED"  # type: ignore[index]  # it has some


@pytest.mark.parametrize(
    ("error", "metric", "attributes"),
    [
        (Contended("the claim was changed by others"), "contention_total", ()),
        (LedgerUnavailable("refused"), "dependency_faults_total", (("dependency", "ledger"),)),
    ],
)
def test_contention_is_no_fault_of_a_dependency(
    emitted: Telemetry, error: Exception, metric: str, attributes: tuple[tuple[str, str], ...]
) -> None:
    """Rows that others change at every try are counted apart from tables that do not respond."""
    problem_response(error, "corr-1")
    counted = {"contention_total", "dependency_faults_total"}
    assert {key: value for key, value in emitted.points().items() if key[0] in counted} == {(metric, attributes): 1}


def test_a_tolerated_fault_is_counted_and_logged(emitted: Telemetry, caplog: pytest.LogCaptureFixture) -> None:
    """Work continues after it, and the line has the type and the text of the fault; another fault ends the work."""
    with telemetry.tolerate(LedgerUnavailable, "DESK_UNSEEN", tenant_id="tenant_a"):
        raise LedgerUnavailable("refused")
    with pytest.raises(Contended), telemetry.tolerate(LedgerUnavailable):
        raise Contended
    assert emitted.points()["dependency_faults_total", (("dependency", "ledger"),)] == 1
    [line] = [json.loads(record.message) for record in caplog.records]
    assert line == {"event": "DESK_UNSEEN", "tenant_id": "tenant_a", "reason": "LedgerUnavailable: refused"}


async def test_a_clock_that_is_off_is_counted(world: World, emitted: Telemetry) -> None:
    """A reply with a timestamp of an hour ago shows that its service's clock is wrong."""
    job_id = await submitted(world, request_type="OCR", payload={})
    directive = await dispatched(world, job_id, "ocr")
    await replied(world, directive, "ACK")
    await replied(world, directive, "RESULT", timestamp=(world.clock.now() - timedelta(hours=1)).isoformat())
    assert emitted.points()[("clock_skew_total", (("stepType", "OCR"),))] == 1


async def test_no_telemetry_holds_what_callers_and_services_wrote(
    world: World, emitted: Telemetry, caplog: pytest.LogCaptureFixture
) -> None:
    """Payload, references, labels, error texts, notes and metrics of a job are not in lines, spans and counts."""
    caplog.set_level(logging.DEBUG)
    uri = {"uri": f"https://account.blob.core.windows.net/documents/a.pdf?snapshot={MARKER}"}
    job_id = await submitted(
        world,
        input_ref=uri,
        output_ref=uri,
        payload={"sis": {"prompt_set": [MARKER]}},
        labels={"team": MARKER},
        idempotency_key=MARKER,
        requested_by=MARKER,
        source=MARKER,
        doc_id=MARKER,
    )
    directive = await dispatched(world, job_id, "ocr")
    await replied(world, directive, "ACK", note=MARKER, progress=MARKER)
    error = {"code": f"no code {MARKER}", "message": MARKER}
    await replied(world, directive, "RESULT", status="FAILED_FINAL", error=error, metrics={MARKER: MARKER})
    await replied(world, directive, "RESULT", result_ref=uri)
    await receive_reply(
        world.context,
        world.orchestrations,
        ReplyMessage(
            body=json.dumps({"type": MARKER, "payload": MARKER}).encode(),
            lane=0,
            message_id="m",
            sequence_number=1,
            delivery_count=1,
            enqueued_at=world.clock.now(),
        ),
    )
    assert "MESSAGE_REJECTED" in caplog.text
    spans = "\n".join(span.to_json() for span in emitted.spans)
    assert job_id in spans
    for text in (caplog.text, spans, repr(emitted.points())):
        assert MARKER not in text


async def test_with_nothing_configured_the_caller_s_context_is_passed_through(world: World) -> None:
    """The directive carries the envelope's `traceparent`, else the request's, as it came."""
    await dispatched(world, await submitted(world, request_type="OCR", payload={}, traceparent=CALLER), "ocr")
    other = CALLER.replace("4bf9", "4bfa")
    with request_span("POST", "v1/orchestrate", {"traceparent": other}):
        job_id = await submitted(world, request_type="OCR", payload={}, idempotency_key="2")
    await dispatched(world, job_id, "ocr")
    assert [directive.traceparent for directive in world.publisher.sent] == [CALLER, other]


async def test_a_callback_joins_its_attempt_and_names_its_request(world: World, emitted: Telemetry) -> None:
    """A service without the bus calls back: the reply's span is under the attempt and linked to the request."""
    job_id = await submitted(world, request_type="OCR", payload={})
    directive = await dispatched(world, job_id, "ocr")
    body = directive.model_dump(include={"jobId", "stepId", "tenant_id", "attempt_no", "lease_id"})
    with request_span("POST", "v1/callbacks/ack", {}) as answered:
        reply = validate_reply({**body, "type": "ACK"})
        await apply_reply(world.context, world.orchestrations, reply, cause_id="callback:1", source="callback")
        answered(200)
    taken, request = emitted.span("process callback"), emitted.span("POST /v1/callbacks/ack")
    attempt = tracing.parse_traceparent(directive.traceparent)
    assert attempt is not None
    assert taken.parent is not None
    assert taken.parent.span_id == attempt.span_id
    assert [link.context.span_id for link in taken.links] == [request.context.span_id]


async def test_the_envelope_s_context_rules_over_the_request_s(world: World, emitted: Telemetry) -> None:
    """The job is in the trace that its envelope names, linked to the request; without one it is in the request's."""
    other = CALLER.replace("4bf9", "4bfa")
    for key, asked in (("1", CALLER), ("2", other), ("3", None)):
        with request_span("POST", "v1/orchestrate", {"traceparent": CALLER}):
            await submitted(world, idempotency_key=key, traceparent=asked)
    requests = [span for span in emitted.spans if span.name == "POST /v1/orchestrate"]
    submits = [span for span in emitted.spans if span.name == "submit OCR_EMBEDDING_SIS"]
    ours, theirs = (int(context.split("-")[1], 16) for context in (CALLER, other))
    assert [span.context.trace_id for span in submits] == [ours, theirs, ours]
    assert [[link.context.span_id for link in span.links] for span in submits] == [
        [],
        [requests[1].context.span_id],
        [],
    ]
    for number in (0, 2):
        parent = submits[number].parent
        assert parent is not None
        assert parent.span_id == requests[number].context.span_id
