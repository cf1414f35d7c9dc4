"""Reads, redrives and callbacks on the real stack; each test plays the service."""

from __future__ import annotations

import json
import time
from typing import Any

import httpx
import pytest

from tests.audit_bundles import faults
from tests.document_commands import block, json_documents, run
from tests.running_stack import ROOT, RunningStack
from tests.stack.job_requests import status_is, submit, until
from tests.stack.scripted.conftest import PUBLIC_URL
from tests.stack.scripted_service import TENANT, ScriptedService
from tests.waiting import wait_until

ERROR = {"code": "PDF_ENCRYPTED", "message": "locked"}


def failed(stack: RunningStack, service: ScriptedService, **changes: Any) -> str:
    """A job that its service gave up."""
    job_id = submit(stack, **changes)
    service.reply(service.directive(job_id), "RESULT", status="FAILED_FINAL", error=ERROR, result_ref=None)
    until(stack, job_id, status_is("FAILED_FINAL"))
    return job_id


def test_rejected_messages_are_listed_and_redriven(stack: RunningStack, service: ScriptedService) -> None:
    """A message that is not JSON is listed with its reason; its redrive is refused, as the read predicts."""
    sent = service.send("this is not JSON")

    def listed() -> dict[str, Any] | None:
        messages = stack.get("/v1/rejected")["rejected"]
        return next((each for each in messages if each["message_id"] == sent), None)

    message = wait_until(listed, "it was not listed")
    assert (message["reason"], "body" in message) == ("NOT_JSON", False)
    whole = stack.get(f"/v1/rejected/{message['id']}")
    assert (whole["body"], whole["what_if"]["outcome"]) == ("this is not JSON", "REJECTED")
    again = stack.http.post(f"/v1/rejected/{message['id']}:redrive")
    assert (again.status_code, again.json()["code"], again.json()["reason"]) == (
        409,
        "STILL_NOT_APPLICABLE",
        "NOT_JSON",
    )
    assert stack.get("/v1/rejected", date="2001-01-01") == {"rejected": [], "next": None}
    assert stack.http.get("/v1/rejected", params={"date": "soon"}).status_code == 400


def test_a_message_that_is_not_utf_8_is_listed_as_text(stack: RunningStack, service: ScriptedService) -> None:
    """With U+FFFD for each byte that was none, as Azure hands it to the app; nothing of it blocks the lane."""
    sent = service.send(b"\xff{caf\xe9")

    def listed() -> str | None:
        messages = stack.get("/v1/rejected")["rejected"]
        return next((str(each["id"]) for each in messages if each["message_id"] == sent), None)

    message = stack.get(f"/v1/rejected/{wait_until(listed, 'it was not listed')}")
    assert (message["reason"], message["body"]) == ("NOT_JSON", "\ufffd{caf\ufffd")


def test_replies_of_older_forms_and_of_every_size(stack: RunningStack, service: ScriptedService) -> None:
    """Replies of older forms are applied, invalid ones do not stop the lane, and a long message is kept whole."""
    job_id = submit(stack)
    directive = service.directive(job_id)
    own = {name: directive[name] for name in ("jobId", "stepId", "tenant_id", "attempt_no", "lease_id")}
    wrong = ('{"status": "ACKED"}', "[" * 5000, "\u0000", json.dumps({**own, "type": "RESULT", "status": "?"}))
    rubbish = [service.send(each) for each in wrong]
    service.send(json.dumps({**own, "status": "ACKED"}))
    until(stack, job_id, status_is("IN_PROGRESS"))
    # more UTF-16 units than a string column takes, twice as many as characters
    message = "🙂" * 16_000
    service.send(json.dumps({**own, "status": "FAILED", "failure_class": "retryable", "error": {"message": "later"}}))
    again = service.directive(job_id)
    assert again["attempt_no"] == 2
    service.send(
        json.dumps(
            {
                **own,
                "attempt_no": 2,
                "lease_id": again["lease_id"],
                "status": "FAILED",
                "failure_class": "NON_RETRYABLE",
            }
            | {"error": {"code": "PDF_ENCRYPTED", "message": message}},
            ensure_ascii=False,
        )
    )
    ended = until(stack, job_id, status_is("FAILED_FINAL"))
    assert (ended["error_code"], ended["error_message"]) == ("PDF_ENCRYPTED", message)
    assert ended["steps"][0]["last_error_message"] == message
    assert faults(stack.get(f"/v1/jobs/{job_id}/audit")) == []

    def rejected() -> bool:
        """Messages of a lane are taken side by side."""
        messages = stack.get("/v1/rejected")["rejected"]
        reasons = [each["reason"] for each in messages if each["message_id"] in rubbish]
        return sorted(reasons) == ["NOT_JSON"] * 2 + ["REPLY_INVALID"] * 2

    wait_until(rejected, "they were not rejected")


def test_a_dead_letter_is_redriven_to_its_end(stack: RunningStack, service: ScriptedService) -> None:
    """EMBEDDING fails; the new job starts there with OCR's result and SUCCEEDS; both histories are proved."""
    job_id = submit(stack, request_type="OCR_EMBEDDING", labels={"team": "red"})
    first = service.directive(job_id)
    service.reply(first, "RESULT")
    with ScriptedService(stack.bus_connection, "embedding") as embedding:
        embedding.reply(embedding.directive(job_id), "RESULT", status="FAILED_FINAL", error=ERROR, result_ref=None)
        until(stack, job_id, status_is("FAILED_FINAL"))

        def listed() -> list[Any]:
            return [each for each in stack.get("/v1/deadletters")["deadletters"] if each["jobId"] == job_id]

        # its row comes with the index, after the job's own
        [letter] = wait_until(listed, "it was not listed")
        assert (letter["error_code"], letter["failed_step_id"], letter["attempts_total"]) == (
            "PDF_ENCRYPTED",
            "embedding",
            2,
        )
        redriven = stack.http.post(f"{letter['links']['redrive']}", json={"reason": "unlocked"})
        new_id = redriven.raise_for_status().json()["jobId"]
        again = stack.http.post(f"/v1/jobs/{job_id}:redrive")
        assert (again.json()["jobId"], again.headers["Idempotency-Replayed"]) == (new_id, "true")
        directive = embedding.directive(new_id)
        assert directive["input_ref"]["uri"] == first["workspace_ref"]["uri"] + "out.json"
        embedding.reply(directive, "ACK")
        embedding.reply(directive, "RESULT")
    ended = until(stack, new_id, status_is("SUCCEEDED"))
    assert (ended["redrive_of"], ended["attempts_total"], ended["steps"][0]["carried"]) == (job_id, 1, True)
    assert job_id not in [each["jobId"] for each in stack.get("/v1/deadletters")["deadletters"]]
    refused = stack.http.post(f"/v1/jobs/{new_id}:redrive")
    assert (refused.status_code, refused.json()["code"]) == (409, "JOB_SUCCEEDED")
    for each in (job_id, new_id):
        assert faults(stack.get(f"/v1/jobs/{each}/audit")) == []


def test_any_past_state_and_where_the_time_went(stack: RunningStack, service: ScriptedService) -> None:
    """`asOf=1` is the job as created, `asOf` its head the job of now; the receipt adds up to its life."""
    job_id = submit(stack)
    directive = service.directive(job_id)
    service.reply(directive, "ACK")
    until(stack, job_id, status_is("IN_PROGRESS"))
    service.reply(directive, "RESULT")
    now = until(stack, job_id, status_is("SUCCEEDED"))
    created = stack.get(f"/v1/jobs/{job_id}", asOf=1)
    assert (created["status"], created["steps"][0]["status"], created["as_of"]["type"]) == (
        "QUEUED",
        "PENDING",
        "JOB_CREATED",
    )
    last = stack.get(f"/v1/jobs/{job_id}", asOf=now["event_seq"])
    assert {name: last[name] for name in now} == now
    for asked, status in (("0", 400), ("x", 400), (now["event_seq"] + 1, 404)):
        answer = stack.http.get(f"/v1/jobs/{job_id}", params={"asOf": asked})
        assert answer.status_code == status
    receipt = stack.get(f"/v1/jobs/{job_id}/receipt")
    assert sum(receipt["total"].values()) == pytest.approx(receipt["elapsed_s"], abs=0.01)
    assert receipt["total"]["service_s"] > 0
    writes = receipt["operations"]["table_writes"]
    assert (writes["count"], writes["bound"], receipt["operations"]["beyond"]) == (6, 6, {})
    assert receipt["operations"]["episodes"] == {"count": 4, "bound": 4}
    sums = stack.get("/v1/receipts", tenant_id=TENANT, limit=100)
    assert sums["jobs"] >= 1
    assert sums["operations"]["directives"]["count"] >= 1
    explained = stack.get(f"/v1/jobs/{job_id}/explain")
    assert (explained["brought_here"]["type"], explained["brought_here"]["seq"]) == ("RESULT", now["event_seq"])
    assert explained["brought_here"]["rows"][-1]["event"] == "LAST_STEP_SUCCEEDED"


def test_lists_are_filtered_and_paged(stack: RunningStack, service: ScriptedService) -> None:
    """By status, label and time, one job a page."""
    before = time.time()
    expected = [failed(stack, service, labels={"colour": "green"}) for _ in range(2)]
    submit(stack, labels={"colour": "green"})

    def both_are_listed() -> bool:
        """Returns whether the list has both: a job's row is written after the job."""
        listed = stack.get("/v1/jobs", tenant_id=TENANT, status="FAILED_FINAL", label="colour:green")["jobs"]
        return len(listed) == len(expected)

    wait_until(both_are_listed, "the list did not follow its jobs")
    seen, cursor = [], ""
    while True:
        page = stack.get(
            "/v1/jobs", tenant_id=TENANT, status="FAILED_FINAL", label="colour:green", limit=1, cursor=cursor
        )
        seen += [line["jobId"] for line in page["jobs"]]
        if (cursor := page["next"]) is None:
            break
    assert seen == expected[::-1]
    since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(before - 1))
    assert len(stack.get("/v1/jobs", since=since, label="colour:green")["jobs"]) == 3
    assert stack.get("/v1/jobs", until=since, label="colour:green")["jobs"] == []
    for bad in ({"status": "GONE"}, {"since": "yesterday"}, {"label": "colour"}, {"cursor": "?"}, {"limit": "0"}):
        assert stack.http.get("/v1/jobs", params=bad).status_code == 400


def test_a_batch_is_many_outcomes(stack: RunningStack) -> None:
    """Two jobs, one of them named twice, an invalid line and a broken one: each has its own response."""
    line = {
        "schema_version": "1.0",
        "tenant_id": "batch",
        "request_type": "OCR",
        "input_ref": f"{stack.blob}/documents/none.pdf",
        "output_ref": f"{stack.blob}/results",
        "payload": {},
    }
    texts = [json.dumps(line | {"doc_id": doc_id}) for doc_id in ("1", "2", "1")]
    texts += [json.dumps(line | {"request_type": "FAX"}), "{"]
    answer = stack.http.post(
        "/v1/orchestrate",
        content="\n".join(texts),
        headers={"Content-Type": "application/x-ndjson", "X-Correlation-Id": "batch-1"},
        timeout=60,
    )
    assert answer.status_code == 200, answer.text
    explained = answer.json()
    assert [result["status"] for result in explained["results"]] == [202, 202, 202, 400, 400]
    assert [result["problem"]["code"] for result in explained["results"][3:]] == ["PROTOCOL_UNKNOWN", "NOT_JSON"]
    ids = [result["jobId"] for result in explained["results"][:3]]
    assert (ids[0], len(set(ids))) == (ids[2], 2)
    assert explained["counts"] == {"lines": 5, "created": 2, "replayed": 1, "checked": 0, "refused": 2, "failed": 0}
    assert stack.get(f"/v1/jobs/{ids[0]}")["correlation_id"] == "batch-1"
    for job_id in set(ids):
        stack.http.post(f"/v1/jobs/{job_id}:cancel").raise_for_status()


def test_a_service_off_the_bus_calls_back(stack: RunningStack, service: ScriptedService) -> None:
    """ACK, heartbeat and RESULT by HTTP with the directive's token: the job SUCCEEDS; without it, 401."""
    job_id = submit(stack)
    callbacks = service.directive(job_id)["callback_urls"]

    def call(kind: str, token: str, body: dict[str, Any]) -> httpx.Response:
        address = callbacks[kind].replace(PUBLIC_URL, stack.api)
        return stack.http.post(address, json=body, headers={"Authorization": f"Bearer {token}"})

    assert call("ack", "lc1.k1.e30.AAAA", {}).status_code == 401
    assert call("ack", callbacks["token"], {"attempt_no": 2}).status_code == 403
    acked = call("ack", callbacks["token"], {})
    assert (acked.status_code, acked.json()["outcome"]) == (200, "APPLIED")
    beaten = call("heartbeat", acked.json()["token"], {"progress": {"page": 1}})
    assert beaten.status_code == 200
    done = call("result", beaten.json()["token"], {"status": "SUCCEEDED", "result_ref": "https://example.com/out.json"})
    assert (done.json()["outcome"], done.json()["job_status"]) == ("APPLIED", "SUCCEEDED")
    ended = until(stack, job_id, status_is("SUCCEEDED"))
    assert ended["final_output"] == {"uri": "https://example.com/out.json"}


def test_the_replies_of_the_services_page(stack: RunningStack, service: ScriptedService) -> None:
    """The curl commands of docs/reference/platform-services.md, with a directive's values, end its job."""
    job_id = submit(stack)
    callbacks = service.directive(job_id)["callback_urls"]
    variables = {f"{kind.upper()}_URL": callbacks[kind].replace(PUBLIC_URL, stack.api) for kind in callbacks}
    variables["TOKEN"] = callbacks["token"]
    commands = block(ROOT / "docs" / "reference" / "platform-services.md", "callback")
    printed = run(stack, "".join(f"{name}='{value}'\n" for name, value in variables.items()) + commands)
    answers = json_documents(printed)
    # a heartbeat this soon after the ACK is not due, unless the machine is slow
    assert [each["outcome"] for each in answers[:1] + answers[2:]] == ["APPLIED"] * 3
    assert answers[1]["why"] in (None, "HEARTBEAT_NOT_DUE")
    assert ["token" in each for each in answers] == [True, True, False, False]
    assert set(answers[0]) == {"outcome", "why", "job_status", "token", "token_expires_at"}
    assert [each["job_status"] for each in answers] == ["IN_PROGRESS"] * 2 + ["SUCCEEDED"] * 2
    until(stack, job_id, status_is("SUCCEEDED"))
