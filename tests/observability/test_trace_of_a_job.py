"""One job, one trace, over the real wire: every hop of it, through app and services and a retry."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from shared.core.jobs.verdict import VerdictKind
from tests.observability.conftest import MARKER
from tests.running_stack import RunningStack
from tests.waiting import wait_until

CALLER = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
STEPS = ("OCR", "EMBEDDING", "SIS")

Spans = list[dict[str, Any]]


def envelope(stack: RunningStack, **more: Any) -> dict[str, Any]:
    return {
        "schema_version": "1.0",
        "tenant_id": "watched",
        "request_type": "OCR_EMBEDDING_SIS",
        "input_ref": {"uri": f"{stack.blob}/documents/samples/invoice.png"},
        "output_ref": {"uri": f"{stack.blob}/results/{MARKER}"},
        "payload": {"sis": {"prompt_set": [f"What is {MARKER}?"]}},
        **more,
    }


@pytest.fixture(scope="module")
def job_id(watched: RunningStack) -> str:
    """Returns a job that succeeded after SIS failed once; the caller had its own trace."""
    answer = watched.http.post("/v1/orchestrate", json=envelope(watched), headers={"traceparent": CALLER})
    made = str(answer.raise_for_status().json()["jobId"])

    def ended() -> bool:
        status = watched.http.get(f"/v1/jobs/{made}").raise_for_status().json()["status"]
        assert status not in ("FAILED_FINAL", "CANCELLED")
        return bool(status == "SUCCEEDED")

    wait_until(ended, "the job did not end")
    return made


@pytest.fixture(scope="module")
def spans(watched: RunningStack, job_id: str) -> Spans:
    """Its trace, once every span has arrived."""

    def whole() -> Spans | None:
        found = traces_of(watched, job_id)
        if not found:
            return None
        got: Spans = watched.get(f"{watched.traces}/api/traces/{found[0]['trace_id']}")["spans"]
        names = [span["name"] for span in got]
        return got if "job OCR_EMBEDDING_SIS" in names and names.count("execute SIS") == 2 and closed(got) else None

    found: Spans = wait_until(whole, "the trace did not become whole")
    return found


def traces_of(stack: RunningStack, job_id: str) -> list[dict[str, Any]]:
    """Those that the collector has for a job."""
    found: list[dict[str, Any]] = stack.http.get(f"{stack.traces}/api/traces", params={"job": job_id}).json()["traces"]
    return found


def closed(spans: Spans) -> bool:
    """Returns whether the parent of every span has arrived, except the caller's, and the result of every message."""
    known = {span["span_id"] for span in spans} | {CALLER.split("-")[2]}
    parents = {span["parent_id"] for span in spans}
    sent = [span["span_id"] for span in spans if span["name"].startswith("send global-bus-replies")]
    return parents <= known and parents >= set(sent)


def named(spans: Spans, name: str, **attributes: Any) -> Spans:
    return [
        span
        for span in spans
        if span["name"] == name and attributes.items() <= {_plain(k): v for k, v in span["attributes"].items()}.items()
    ]


def _plain(key: str) -> str:
    return key.removeprefix("lucius.")


def test_the_caller_s_trace_is_the_job_s(watched: RunningStack, job_id: str, spans: Spans) -> None:
    """The POST continues the caller's context, and that trace alone contains the job."""
    assert [trace["trace_id"] for trace in traces_of(watched, job_id)] == [CALLER.split("-")[1]]
    [post] = named(spans, "POST /v1/orchestrate")
    assert (post["parent_id"], post["kind"]) == (CALLER.split("-")[2], "server")
    assert post["attributes"]["http.response.status_code"] == 202
    [submit] = named(spans, "submit OCR_EMBEDDING_SIS")
    [job] = named(spans, "job OCR_EMBEDDING_SIS")
    assert (submit["parent_id"], job["parent_id"]) == (post["span_id"], submit["span_id"])


def test_every_attempt_has_every_hop(spans: Spans) -> None:
    """Dispatch, send, the service's processing and work, and each reply from its send to the ledger."""
    [job] = named(spans, "job OCR_EMBEDDING_SIS")
    for step_type, attempt_no in [("OCR", 1), ("EMBEDDING", 1), ("SIS", 1), ("SIS", 2)]:
        of = {"step_type": step_type, "attempt_no": attempt_no}
        [attempt] = named(spans, f"attempt {step_type}", **of)
        assert attempt["parent_id"] == job["span_id"]
        dispatches = [span for span in named(spans, f"dispatch {step_type}", **of) if span["service"] == "lucius"]
        assert "SENT" in {span["attributes"]["lucius.verdict"] for span in dispatches}
        below = [span for span in spans if span["parent_id"] == attempt["span_id"]]
        [send] = [span for span in below if span["kind"] == "producer"]
        [process] = [span for span in below if span["kind"] == "consumer"]
        assert (send["service"], process["service"]) == ("lucius", f"lucius-{step_type.lower()}")
        assert send["name"].startswith("send global-bus-p")
        assert process["name"] == send["name"].replace("send", "process")
        inside = [span for span in spans if span["parent_id"] == process["span_id"]]
        assert [span["name"] for span in inside if span["kind"] == "internal"] == [f"execute {step_type}"]
        replies = [span for span in inside if span["kind"] == "producer"]
        assert {"ACK", "RESULT"} <= {span["attributes"]["lucius.reply"] for span in replies}
        for reply in replies:
            taken = [span for span in spans if span["parent_id"] == reply["span_id"]]
            assert [span["name"] for span in taken] == [reply["name"].replace("send", "process")]
            assert [attempt["trace_id"], attempt["span_id"]] in taken[0]["links"]


def test_a_retry_is_linked_to_the_attempt_before(spans: Spans) -> None:
    """The second attempt of SIS names the first, which failed."""
    [first] = named(spans, "attempt SIS", attempt_no=1)
    [second] = named(spans, "attempt SIS", attempt_no=2)
    assert second["links"] == [[first["trace_id"], first["span_id"]]]
    assert (first["failed"], first["attributes"]["error.type"]) == (True, "MODEL_UNAVAILABLE")
    assert not second["failed"]
    assert first["end_ns"] <= second["start_ns"]


def test_a_timer_s_question_is_seen(spans: Spans) -> None:
    """A span of `settle` with its verdict is in the trace, under the job."""
    [job] = named(spans, "job OCR_EMBEDDING_SIS")
    settled = [span for span in spans if span["name"].startswith("settle ")]
    assert settled
    assert {span["parent_id"] for span in settled} == {job["span_id"]}
    assert {span["attributes"]["lucius.verdict"] for span in settled} <= set(VerdictKind)


def test_no_span_holds_a_payload_or_a_secret(watched: RunningStack, job_id: str, spans: Spans) -> None:
    """A marker in payload, reference and keys is in no log, no span and no metric of app, host and services."""
    wait_until(lambda: watched.http.get(f"{watched.traces}/api/metrics").json()["metrics"], "no metric came")
    collected = watched.http.get(f"{watched.traces}/api/metrics").text + repr(spans)
    logs = {path.name: path.read_text(errors="replace") for path in (watched.data / "logs").glob("*.log")}
    # Azurite writes the names of blobs to its access log
    logs.pop("azurite.log")
    assert {"host.log", "ocr.log", "embedding.log", "sis.log", "bus.log"} <= set(logs)
    assert job_id in logs["host.log"]
    assert "SIS" in collected
    for name, text in {**logs, "collected": collected}.items():
        assert MARKER not in text, name
        assert "bUFyS2VSLTdmM2F" not in text, name
        assert "SharedAccessKey=" not in text, name


def test_a_line_carries_the_trace(watched: RunningStack, job_id: str) -> None:
    """The lines of a job have its ids and its trace."""

    def own() -> list[dict[str, Any]]:
        found = [json.loads(match[0]) for match in re.finditer(r'\{"event": "RESULT".*\}', watched.log("host"))]
        return [line for line in found if line["jobId"] == job_id]

    # a log follows the process that writes it
    wait_until(lambda: len(own()) == 4, "the lines did not come")
    for line in own():
        assert {"stepId", "tenant_id", "attempt_no", "lease_digest", "correlation_id", "span_id"} <= line.keys()
        assert line["trace_id"] == CALLER.split("-")[1]


def test_a_service_s_line_carries_it_too(watched: RunningStack, job_id: str) -> None:
    """With `LUCIUS_SERVICE_LOGS=json` a service's lines are objects with the ids of their attempt."""

    def of_the_job() -> list[dict[str, Any]] | None:
        lines = [json.loads(match[0]) for match in re.finditer(r'\{"time".*\}', watched.log("sis"))]
        found = [line for line in lines if line.get("jobId") == job_id]
        return found if len(found) >= 2 else None

    own = wait_until(of_the_job, "the lines did not come")
    assert [(line["stepId"], line["attempt_no"], line["tenant_id"]) for line in own] == [
        ("sis", 1, "watched"),
        ("sis", 2, "watched"),
    ]
    assert {line["trace_id"] for line in own} == {CALLER.split("-")[1]}
    assert {line["service"] for line in own} == {"sis"}


def test_each_line_of_a_batch_has_a_trace_of_its_own(watched: RunningStack) -> None:
    """Two lines have two traces, linked to the one request."""
    lines = [envelope(watched, idempotency_key=f"batch-{n}", request_type="OCR", payload={}) for n in range(2)]
    answer = watched.http.post(
        "/v1/orchestrate",
        content="\n".join(json.dumps(line) for line in lines),
        headers={"Content-Type": "application/x-ndjson"},
    )
    made = [result["jobId"] for result in answer.raise_for_status().json()["results"]]

    def both() -> list[str] | None:
        found = [traces_of(watched, job_id) for job_id in made]
        return [traces[0]["trace_id"] for traces in found] if all(found) else None

    assert len(set(wait_until(both, "the traces did not come"))) == 2


def test_the_page_shows_it(watched: RunningStack, job_id: str, spans: Spans) -> None:
    """The list finds the job, and its page has a bar a span."""
    listed = watched.http.get(watched.traces, params={"job": job_id}).raise_for_status().text
    link = f"/traces/{CALLER.split('-')[1]}"
    assert link in listed
    page = watched.http.get(f"{watched.traces}{link}").raise_for_status().text
    assert page.count('class="bar"') >= len(spans)
    assert "execute SIS" in page


def test_the_metrics_of_the_job_came(watched: RunningStack, job_id: str) -> None:
    """Each transition of the job is counted once."""

    def counted() -> dict[str, float] | None:
        found = watched.http.get(f"{watched.traces}/api/metrics").json()["metrics"]
        own = {
            f"{each['name']} {' '.join(str(value) for value in each['attributes'].values())}".strip(): each["value"]
            for each in found
        }
        requested = any(name.startswith("http.server.request.duration POST /v1/orchestrate 202") for name in own)
        return own if requested and own.get("job_completed_total OCR_EMBEDDING_SIS SUCCEEDED") else None

    values = wait_until(counted, "the metrics did not come")
    assert values["job_completed_total OCR_EMBEDDING_SIS SUCCEEDED"] == 1
    assert values["job_retry_total OCR_EMBEDDING_SIS SIS RESULT"] == 1
