"""The job lifecycle on the real stack with short time-outs; each test plays the service."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta

import httpx
import pytest
from azure.data.tables import TableServiceClient

from tests.running_stack import RunningStack
from tests.stack.job_requests import events, job, post, status_is, submit, until, without_the_host
from tests.stack.scripted_service import TENANT, ScriptedService
from tests.waiting import wait_until


def test_a_retryable_failure_gets_a_new_attempt(stack: RunningStack, service: ScriptedService) -> None:
    """FAILED_RETRY, then a second directive with a new attempt and lease, then SUCCEEDED."""
    job_id = submit(stack)
    first = service.directive(job_id)
    service.reply(first, "ACK")
    service.reply(first, "RESULT", status="FAILED_RETRY", error={"code": "BUSY", "message": "later"}, result_ref=None)
    second = service.directive(job_id)
    assert (second["attempt_no"], second["lease_id"] == first["lease_id"]) == (2, False)
    assert second["workspace_ref"]["uri"].endswith(f"/lucius/{TENANT}/{job_id}/OCR/2/")
    service.reply(second, "RESULT")
    ended = until(stack, job_id, status_is("SUCCEEDED"))
    assert (ended["attempts_total"], ended["final_output"]["uri"]) == (2, second["workspace_ref"]["uri"] + "out.json")
    kept = datetime.fromisoformat(ended["final_output_expires_at"]) - datetime.fromisoformat(ended["completed_at"])
    assert (second["final"], kept) == (True, timedelta(days=30))


def test_a_final_failure_ends_the_job(stack: RunningStack, service: ScriptedService) -> None:
    """FAILED_FINAL is not retried; the service's code is the job's."""
    job_id = submit(stack)
    directive = service.directive(job_id)
    service.reply(directive, "RESULT", status="FAILED_FINAL", error={"code": "PDF_ENCRYPTED", "message": "locked"})
    ended = until(stack, job_id, status_is("FAILED_FINAL", "SUCCEEDED"))
    assert (ended["status"], ended["error_code"], ended["attempts_total"]) == ("FAILED_FINAL", "PDF_ENCRYPTED", 1)


def test_silence_exhausts_the_attempts(stack: RunningStack, service: ScriptedService) -> None:
    """No ACK, three times: FAILED_FINAL, ATTEMPTS_EXHAUSTED; a directive that waits unread uses no attempt up."""
    job_id = submit(stack, request_type="HASTY")
    wait_until(lambda: "LANE_BACKLOG" in events(stack, job_id), "the unread directive was not seen")
    assert "no directive is ahead of the job's directive" in stack.get(f"/v1/jobs/{job_id}/explain")["text"]
    for attempt_no in (1, 2, 3):
        assert service.directive(job_id)["attempt_no"] == attempt_no
    ended = until(stack, job_id, status_is("FAILED_FINAL"))
    assert (ended["error_code"], ended["attempts_total"]) == ("ATTEMPTS_EXHAUSTED", 3)
    assert ended["steps"][0]["last_error_code"] == "ACK_TIMEOUT"
    rest = [type_ for type_ in events(stack, job_id) if type_ != "LANE_BACKLOG"]
    assert rest == ["JOB_CREATED", *["ATTEMPT_RECORDED", "ACK_TIMEOUT"] * 3]


def test_a_service_that_dies_after_its_ack_loses_its_lease(stack: RunningStack, service: ScriptedService) -> None:
    """ACK and then silence: the lease runs out, the second attempt succeeds."""
    job_id = submit(stack, request_type="SHORT_LEASE")
    service.reply(service.directive(job_id), "ACK")
    second = service.directive(job_id)
    assert second["attempt_no"] == 2
    service.reply(second, "RESULT")
    ended = until(stack, job_id, status_is("SUCCEEDED"))
    assert "LEASE_EXPIRED" in events(stack, job_id)
    assert ended["attempts_total"] == 2


def test_heartbeats_keep_the_lease(stack: RunningStack, service: ScriptedService) -> None:
    """Work longer than the lease is one attempt as long as heartbeats come."""
    job_id = submit(stack, request_type="SHORT_LEASE")
    directive = service.directive(job_id)
    service.reply(directive, "ACK")
    for _ in range(10):
        time.sleep(0.8)
        service.reply(directive, "HEARTBEAT", progress={"page": 1})
    service.reply(directive, "RESULT")
    assert until(stack, job_id, status_is("SUCCEEDED"))["attempts_total"] == 1


def test_result_before_ack(stack: RunningStack, service: ScriptedService) -> None:
    """A RESULT that overtakes its ACK counts; the ACK is recorded as late."""
    job_id = submit(stack)
    directive = service.directive(job_id)
    service.reply(directive, "RESULT")
    until(stack, job_id, status_is("SUCCEEDED"))
    service.reply(directive, "ACK")
    wait_until(lambda: events(stack, job_id)[-1] == "REPLY_IGNORED", "the late ACK was not recorded")
    assert job(stack, job_id)["status"] == "SUCCEEDED"


def test_a_host_killed_in_the_middle_of_a_job(stack: RunningStack, service: ScriptedService) -> None:
    """SIGKILL while a step is with its service, RESULT sent while the host is down: the job completes."""
    job_id = submit(stack)
    directive = service.directive(job_id)
    service.reply(directive, "ACK")
    until(stack, job_id, lambda found: bool(found["steps"][0]["status"] == "PROCESSING"))
    with without_the_host(stack):
        service.reply(directive, "RESULT")
    ended = until(stack, job_id, status_is("SUCCEEDED"))
    assert ended["attempts_total"] == 1


def test_a_parallel_group(stack: RunningStack, service: ScriptedService) -> None:
    """Both directives of the group are out at once, the last step's after both results, in any order."""
    job_id = submit(stack, request_type="TWO_AND_ONE")
    pair = {directive["stepId"]: directive for directive in (service.directive(job_id), service.directive(job_id))}
    assert set(pair) == {"a", "b"}
    for name in ("b", "a"):
        service.reply(pair[name], "ACK")
        service.reply(pair[name], "RESULT")
    last = service.directive(job_id)
    assert (last["stepId"], last["attempt_no"]) == ("last", 1)
    service.reply(last, "RESULT")
    ended = until(stack, job_id, status_is("SUCCEEDED"))
    assert ended["attempts_total"] == 3
    instance = f"/runtime/webhooks/durabletask/instances/{job_id}"
    wait_until(lambda: stack.get(instance)["runtimeStatus"] == "Completed", "the orchestration did not end")


@pytest.mark.parametrize("ended_by", ["reply", "time-out"])
def test_a_group_that_failed_leaves_no_orchestration(
    stack: RunningStack, service: ScriptedService, ended_by: str
) -> None:
    """A step fails permanently, by its RESULT or without an ACK; all end, though a sibling's lease is five minutes."""
    job_id = submit(stack, request_type="ONCE_EACH", doc_id=ended_by)
    pair = {directive["stepId"]: directive for directive in (service.directive(job_id), service.directive(job_id))}
    service.reply(pair["b"], "ACK")
    until(stack, job_id, lambda found: bool(found["steps"][1]["status"] == "PROCESSING"))
    if ended_by == "reply":
        service.reply(pair["a"], "RESULT", status="FAILED_FINAL", error={"code": "BROKEN", "message": "m"})
    ended = until(stack, job_id, status_is("FAILED_FINAL"))
    assert [step["status"] for step in ended["steps"]] == ["FAILED_FINAL", "CANCELLED"]
    for instance_id in (job_id, f"{job_id}.s0", f"{job_id}.s1"):
        instance = f"/runtime/webhooks/durabletask/instances/{instance_id}"
        wait_until(
            lambda instance=instance: stack.get(instance)["runtimeStatus"] == "Completed",
            f"the orchestration {instance_id} did not end",
        )


def test_tens_of_identical_posts_are_one_job(stack: RunningStack) -> None:
    """Thirty at once: one job and one creation; the others are marked as replayed."""

    def posted(_: int) -> httpx.Response:
        """Posts, and repeats a refused request, since thirty requests fill the waiting list on a slow machine."""

        def answered() -> httpx.Response | None:
            answer = post(stack, idempotency_key="the-same")
            return answer if answer.status_code != 503 else None

        return wait_until(answered, "no place in the line")

    with ThreadPoolExecutor(30) as threads:
        answers = list(threads.map(posted, range(30)))
    assert {answer.status_code for answer in answers} == {202}
    assert len({answer.json()["jobId"] for answer in answers}) == 1
    assert len({answer.json()["created_at"] for answer in answers}) == 1
    assert sum("Idempotency-Replayed" not in answer.headers for answer in answers) == 1
    conflict = post(stack, idempotency_key="the-same", doc_id="another")
    assert (conflict.status_code, conflict.json()["code"]) == (409, "IDEMPOTENCY_CONFLICT")


def test_pause_resume_and_cancel(stack: RunningStack, service: ScriptedService) -> None:
    """PAUSED when the attempt in flight has ended, on by resume, CANCELLED at once when nothing is in flight."""
    job_id = submit(stack, request_type="THEN_HASTY")
    directive = service.directive(job_id)
    service.reply(directive, "ACK")
    until(stack, job_id, status_is("IN_PROGRESS"))
    paused = stack.http.post(f"/v1/jobs/{job_id}:pause", json={"reason": "a look"})
    assert (paused.status_code, paused.json()["status"]) == (200, "PAUSING")
    service.reply(directive, "RESULT")
    assert until(stack, job_id, status_is("PAUSED"))["drained_at"] is not None
    resumed = stack.http.post(f"/v1/jobs/{job_id}:resume")
    assert resumed.json()["status"] == "IN_PROGRESS"
    until(stack, job_id, lambda found: bool(found["steps"][1]["attempt_no"] == 1))
    stack.http.post(f"/v1/jobs/{job_id}:cancel").raise_for_status()
    ended = until(stack, job_id, status_is("CANCELLED"))
    assert [step["status"] for step in ended["steps"]] == ["SUCCEEDED", "CANCELLED"]
    again = stack.http.post(f"/v1/jobs/{job_id}:pause")
    assert (again.status_code, again.json()["code"]) == (409, "JOB_TERMINAL")


def test_a_message_that_no_job_can_take_is_quarantined(stack: RunningStack, service: ScriptedService) -> None:
    """A message that is not JSON, or of an unknown job, becomes a row with the reason, and the lane continues."""
    sent = [
        service.send("this is not JSON"),
        service.send(
            '{"type": "ACK", "jobId": "job_none", "stepId": "s", "tenant_id": "t", "attempt_no": 1, "lease_id": "l"}'
        ),
    ]
    job_id = submit(stack)
    service.reply(service.directive(job_id), "RESULT")
    until(stack, job_id, status_is("SUCCEEDED"))
    with TableServiceClient.from_connection_string(stack.storage_connection) as tables:

        def quarantined() -> dict[str, str] | None:
            """Messages of a lane are taken side by side."""
            rows = tables.get_table_client("luciusrejected").list_entities()
            reasons = {row["message_id"]: row["reason"] for row in rows if row.get("message_id") in sent}
            return reasons if len(reasons) == len(sent) else None

        reasons = wait_until(quarantined, "they were not quarantined")
    assert [reasons[message_id] for message_id in sent] == ["NOT_JSON", "UNKNOWN_JOB"]


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
    stack: RunningStack, content: bytes, content_type: str, status: int, code: str
) -> None:
    """Every refusal is application/problem+json with a stable code."""
    answer = stack.http.post("/v1/orchestrate", content=content, headers={"Content-Type": content_type}, timeout=30)
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert answer.headers["Content-Type"].startswith("application/problem+json")
    assert answer.json()["correlation_id"] == answer.headers["X-Correlation-Id"]


def test_reads_have_etags_and_unknown_jobs_are_404(stack: RunningStack) -> None:
    """If-None-Match answers 304; a job that is not there is a problem."""
    first = stack.http.get("/v1/protocols")
    again = stack.http.get("/v1/protocols", headers={"If-None-Match": first.headers["ETag"]})
    assert (again.status_code, again.content) == (304, b"")
    missing = stack.http.get("/v1/jobs/job_none")
    assert (missing.status_code, missing.json()["code"]) == (404, "JOB_NOT_FOUND")
