"""The job lifecycle on the real stack, against a service that does what each test says, with short time-outs."""

from __future__ import annotations

import json
import shutil
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from azure.data.tables import TableServiceClient

from tests import running_stack
from tests.running_stack import RunningStack
from tests.stack.bare import DEADLINE_S, bare_stack, events, job, post, status_is, submit, until
from tests.stack.scripted_service import TENANT, ScriptedService

#: a protocol of one's own is a file; this one's lease outlives the lock of a reply that a killed host took with it
PATIENT_OCR = {
    "protocol_id": "patient_ocr",
    "version": 1,
    "request_type": "PATIENT_OCR",
    "steps": [{"step_id": "ocr", "step_type": "OCR", "service": "ocr", "lease_s": 300}],
}

#: two steps side by side, then one
TWO_AND_ONE = {
    "protocol_id": "two_and_one",
    "version": 1,
    "request_type": "TWO_AND_ONE",
    "steps": [{"step_id": name, "step_type": "OCR", "service": "ocr", "lease_s": 300} for name in ("a", "b", "last")],
    "parallel": [["a", "b"]],
}


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningStack]:
    """A stack without platform services."""
    protocols = tmp_path_factory.mktemp("protocols") / "protocols"
    shutil.copytree(running_stack.ROOT / "protocols", protocols)
    for protocol in (PATIENT_OCR, TWO_AND_ONE):
        (protocols / f"{protocol['protocol_id']}.json").write_text(json.dumps(protocol))
    with bare_stack(tmp_path_factory.mktemp("bare"), {"LUCIUS_PROTOCOLS_PATH": str(protocols)}) as running:
        yield running


@pytest.fixture
def service(bare: RunningStack) -> Iterator[ScriptedService]:
    with ScriptedService(bare.bus_connection) as scripted:
        yield scripted


def test_a_retryable_failure_gets_a_new_attempt(bare: RunningStack, service: ScriptedService) -> None:
    """FAILED_RETRY, then a second directive with a new attempt and lease, then SUCCEEDED."""
    job_id = submit(bare)
    first = service.directive(job_id)
    service.reply(first, "ACK")
    service.reply(first, "RESULT", status="FAILED_RETRY", error={"code": "BUSY", "message": "later"}, result_ref=None)
    second = service.directive(job_id)
    assert (second["attempt_no"], second["lease_id"] == first["lease_id"]) == (2, False)
    assert second["workspace_ref"]["uri"].endswith(f"/lucius/{TENANT}/{job_id}/OCR/2/")
    service.reply(second, "RESULT")
    ended = until(bare, job_id, status_is("SUCCEEDED"))
    assert (ended["attempts_total"], ended["final_output"]["uri"]) == (2, second["workspace_ref"]["uri"] + "out.json")


def test_a_final_failure_ends_the_job(bare: RunningStack, service: ScriptedService) -> None:
    """FAILED_FINAL is not retried; the service's code is the job's."""
    job_id = submit(bare)
    directive = service.directive(job_id)
    service.reply(directive, "RESULT", status="FAILED_FINAL", error={"code": "PDF_ENCRYPTED", "message": "locked"})
    ended = until(bare, job_id, status_is("FAILED_FINAL", "SUCCEEDED"))
    assert (ended["status"], ended["error_code"], ended["attempts_total"]) == ("FAILED_FINAL", "PDF_ENCRYPTED", 1)


def test_silence_exhausts_the_attempts(bare: RunningStack) -> None:
    """No ACK, three times: FAILED_FINAL, ATTEMPTS_EXHAUSTED; a directive that waits unread has longer."""
    job_id = submit(bare)
    ended = until(bare, job_id, status_is("FAILED_FINAL"))
    assert (ended["error_code"], ended["attempts_total"]) == ("ATTEMPTS_EXHAUSTED", 3)
    assert ended["steps"][0]["last_error_code"] == "ACK_TIMEOUT"
    history = events(bare, job_id)
    assert "LANE_BACKLOG" in history
    rest = [type_ for type_ in history if type_ != "LANE_BACKLOG"]
    assert rest == ["JOB_CREATED", *["ATTEMPT_RECORDED", "ACK_TIMEOUT"] * 3]


def test_a_service_that_dies_after_its_ack_loses_its_lease(bare: RunningStack, service: ScriptedService) -> None:
    """ACK and then silence: the lease runs out, the second attempt succeeds."""
    job_id = submit(bare)
    service.reply(service.directive(job_id), "ACK")
    second = service.directive(job_id)
    assert second["attempt_no"] == 2
    service.reply(second, "RESULT")
    ended = until(bare, job_id, status_is("SUCCEEDED"))
    assert "LEASE_EXPIRED" in events(bare, job_id)
    assert ended["attempts_total"] == 2


def test_heartbeats_keep_the_lease(bare: RunningStack, service: ScriptedService) -> None:
    """Work longer than the lease is one attempt as long as heartbeats come."""
    job_id = submit(bare)
    directive = service.directive(job_id)
    service.reply(directive, "ACK")
    for _ in range(5):
        time.sleep(1.6)
        service.reply(directive, "HEARTBEAT", progress={"page": 1})
    service.reply(directive, "RESULT")
    assert until(bare, job_id, status_is("SUCCEEDED"))["attempts_total"] == 1


def test_result_before_ack(bare: RunningStack, service: ScriptedService) -> None:
    """A RESULT that overtakes its ACK counts; the ACK is recorded as late."""
    job_id = submit(bare)
    directive = service.directive(job_id)
    service.reply(directive, "RESULT")
    until(bare, job_id, status_is("SUCCEEDED"))
    service.reply(directive, "ACK")
    deadline = time.monotonic() + DEADLINE_S
    while events(bare, job_id)[-1] != "REPLY_IGNORED":
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert job(bare, job_id)["status"] == "SUCCEEDED"


def test_a_host_killed_in_the_middle_of_a_job(bare: RunningStack, service: ScriptedService) -> None:
    """SIGKILL while a step is with its service, RESULT sent while the host is down: the job completes."""
    job_id = submit(bare, request_type="PATIENT_OCR")
    directive = service.directive(job_id)
    service.reply(directive, "ACK")
    until(bare, job_id, lambda found: bool(found["steps"][0]["status"] == "PROCESSING"))
    starts = bare.kill("host", signal.SIGKILL)
    time.sleep(0.3)  # the bus sees the connection end; a reply handed to it before would be locked for a minute
    service.reply(directive, "RESULT")
    bare.wait_for_start("host", starts + 1)
    ended = until(bare, job_id, status_is("SUCCEEDED"))
    assert ended["attempts_total"] == 1


def test_a_parallel_group(bare: RunningStack, service: ScriptedService) -> None:
    """Both directives of the group are out at once, the last step's after both results, in any order."""
    job_id = submit(bare, request_type="TWO_AND_ONE")
    pair = {directive["stepId"]: directive for directive in (service.directive(job_id), service.directive(job_id))}
    assert set(pair) == {"a", "b"}
    for name in ("b", "a"):
        service.reply(pair[name], "ACK")
        service.reply(pair[name], "RESULT")
    last = service.directive(job_id)
    assert (last["stepId"], last["attempt_no"]) == ("last", 1)
    service.reply(last, "RESULT")
    ended = until(bare, job_id, status_is("SUCCEEDED"))
    assert ended["attempts_total"] == 3
    history = httpx.get(f"{bare.api}/runtime/webhooks/durabletask/instances/{job_id}", timeout=30)
    deadline = time.monotonic() + DEADLINE_S
    while history.json()["runtimeStatus"] != "Completed":
        assert time.monotonic() < deadline, history.text
        time.sleep(0.1)
        history = httpx.get(f"{bare.api}/runtime/webhooks/durabletask/instances/{job_id}", timeout=30)


def test_tens_of_identical_posts_are_one_job(bare: RunningStack) -> None:
    """Thirty at once: one job, one creation, the others are told so."""
    with ThreadPoolExecutor(30) as threads:
        answers = list(threads.map(lambda _: post(bare, idempotency_key="the-same"), range(30)))
    assert {answer.status_code for answer in answers} == {202}
    assert len({answer.json()["jobId"] for answer in answers}) == 1
    assert len({answer.json()["created_at"] for answer in answers}) == 1
    assert sum("Idempotency-Replayed" not in answer.headers for answer in answers) == 1
    conflict = post(bare, idempotency_key="the-same", doc_id="another")
    assert (conflict.status_code, conflict.json()["code"]) == (409, "IDEMPOTENCY_CONFLICT")


def test_pause_resume_and_cancel(bare: RunningStack, service: ScriptedService) -> None:
    """PAUSED when the attempt in flight has ended, on by resume, CANCELLED at once when nothing is in flight."""
    job_id = submit(bare, request_type="OCR_EMBEDDING")
    directive = service.directive(job_id)
    service.reply(directive, "ACK")
    until(bare, job_id, status_is("IN_PROGRESS"))
    paused = httpx.post(f"{bare.api}/v1/jobs/{job_id}:pause", json={"reason": "a look"}, timeout=30)
    assert (paused.status_code, paused.json()["status"]) == (200, "PAUSING")
    service.reply(directive, "RESULT")
    assert until(bare, job_id, status_is("PAUSED"))["drained_at"] is not None
    resumed = httpx.post(f"{bare.api}/v1/jobs/{job_id}:resume", timeout=30)
    assert resumed.json()["status"] == "IN_PROGRESS"
    until(bare, job_id, lambda found: bool(found["steps"][1]["attempt_no"] == 1))
    httpx.post(f"{bare.api}/v1/jobs/{job_id}:cancel", timeout=30).raise_for_status()
    ended = until(bare, job_id, status_is("CANCELLED"))
    assert [step["status"] for step in ended["steps"]] == ["SUCCEEDED", "CANCELLED"]
    again = httpx.post(f"{bare.api}/v1/jobs/{job_id}:pause", timeout=30)
    assert (again.status_code, again.json()["code"]) == (409, "JOB_TERMINAL")


def test_a_message_that_no_job_can_take_is_parked(bare: RunningStack, service: ScriptedService) -> None:
    """Rubbish on a reply lane becomes a row with the reason, and the lane goes on."""
    service.say("this is not JSON")
    service.say(
        '{"type": "ACK", "jobId": "job_none", "stepId": "s", "tenant_id": "t", "attempt_no": 1, "lease_id": "l"}'
    )
    job_id = submit(bare)
    service.reply(service.directive(job_id), "RESULT")
    until(bare, job_id, status_is("SUCCEEDED"))
    with TableServiceClient.from_connection_string(bare.storage_connection) as tables:
        rows = list(tables.get_table_client("luciusrejected").list_entities())
    assert {row["reason"] for row in rows} == {"NOT_JSON", "UNKNOWN_JOB"}


@pytest.mark.parametrize(
    ("content", "content_type", "status", "code"),
    [
        (b"{", "application/json", 400, "NOT_JSON"),
        (b"[]", "application/json", 400, "ENVELOPE_INVALID"),
        (b"{}", "application/json", 400, "ENVELOPE_INVALID"),
        (b"{}", "text/plain", 415, "NOT_JSON"),
        (b'{"a": "' + b"x" * 1_100_000 + b'"}', "application/json", 413, "BODY_TOO_LARGE"),
    ],
)
def test_bad_requests_are_problems(
    bare: RunningStack, content: bytes, content_type: str, status: int, code: str
) -> None:
    """Every refusal is application/problem+json with a stable code."""
    answer = httpx.post(
        f"{bare.api}/v1/orchestrate", content=content, headers={"Content-Type": content_type}, timeout=30
    )
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert answer.headers["Content-Type"].startswith("application/problem+json")
    assert answer.json()["correlation_id"] == answer.headers["X-Correlation-Id"]


def test_reads_have_etags_and_unknown_jobs_are_404(bare: RunningStack) -> None:
    """If-None-Match answers 304; a job that is not there is a problem."""
    first = httpx.get(f"{bare.api}/v1/protocols", timeout=30)
    again = httpx.get(f"{bare.api}/v1/protocols", headers={"If-None-Match": first.headers["ETag"]}, timeout=30)
    assert (again.status_code, again.content) == (304, b"")
    missing = httpx.get(f"{bare.api}/v1/jobs/job_none", timeout=30)
    assert (missing.status_code, missing.json()["code"]) == (404, "JOB_NOT_FOUND")
