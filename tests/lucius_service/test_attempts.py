"""The promises of every service on the kit (docs/guides/platform-services.md), over the real bus and real storage."""

from __future__ import annotations

import hashlib
import json
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from lucius_service.directive import Directive
from lucius_service.replies import heartbeat
from tests.lucius_service.blob_account import BlobAccount
from tests.lucius_service.invoker import Invoker, new_directive
from tests.lucius_service.service_process import SharedProbe


@pytest.fixture(autouse=True)
def probe(shared_probe: SharedProbe) -> None:
    """Each test has a running service, also where another test stopped it."""
    shared_probe.current()


def test_an_attempt_is_acknowledged_and_ends_with_one_result(invoker: Invoker, account: BlobAccount) -> None:
    """The replies of an attempt are an ACK and one RESULT, with the documented fields and no others."""
    directive = invoker.directive(payload={"work_s": 0.1})
    job = directive["jobId"]
    invoker.send(directive)
    result = invoker.result(job)
    # on a busy machine a heartbeat may come between them
    ack, *_ = replies = invoker.replies(job, "ACK", "RESULT")
    common = {name: directive[name] for name in ("jobId", "stepId", "tenant_id", "attempt_no", "lease_id")}
    common["correlation_id"] = directive["correlation_id"]
    assert [reply["type"] for reply in replies] == ["ACK", "RESULT"]
    assert {**common, "type": "ACK", "timestamp": ack["timestamp"]} == ack
    assert datetime.fromisoformat(ack["timestamp"]).tzinfo is not None
    duration_s = result["metrics"].pop("duration_s")
    assert duration_s >= 0.1
    assert {
        **common,
        "type": "RESULT",
        "timestamp": result["timestamp"],
        "status": "SUCCEEDED",
        "result_ref": {"uri": directive["workspace_ref"]["uri"] + "probe/out.txt"},
        "metrics": {"answer": 42},
        "digests": {"result_ref": f"sha256:{hashlib.sha256(b'done').hexdigest()}"},
    } == result
    assert account.download(result["result_ref"]["uri"]) == b"done"


def test_a_reply_has_its_type_job_and_tenant_as_properties(invoker: Invoker) -> None:
    """Type, job and tenant are application properties, and the content type is JSON."""
    directive = invoker.directive()
    invoker.send(directive)
    invoker.result(directive["jobId"])
    # on a busy machine a heartbeat may come between them
    ack, *_, result = invoker.messages(directive["jobId"])
    expected = {b"job_id": directive["jobId"].encode(), b"tenant_id": b"acme"}
    assert expected | {b"type": b"ACK"} == ack.application_properties
    assert expected | {b"type": b"RESULT"} == result.application_properties
    assert ack.content_type == result.content_type == "application/json"


def test_the_message_is_completed_after_the_result(invoker: Invoker) -> None:
    """Nothing is left in the subscription once the attempt has ended."""
    directive = invoker.directive()
    invoker.send(directive)
    invoker.result(directive["jobId"])
    invoker.wait(lambda: not invoker.left(directive), "completion of the directive")


def test_heartbeats_are_sent_while_waiting_and_working(invoker: Invoker, tmp_path: Path) -> None:
    """An attempt that waits for a worker and one that is worked on both send heartbeats, and none after the RESULT."""
    done = tmp_path / "done"
    first, second = (invoker.directive(payload={"until": str(done)}) for _ in range(2))
    invoker.send(first)
    invoker.wait(lambda: bool(invoker.replies(first["jobId"], "ACK")), "ACK")
    invoker.send(second)
    invoker.wait(lambda: "waiting" in _notes(invoker, second), "HEARTBEAT of the attempt that waits")
    invoker.wait(lambda: "half way" in _notes(invoker, first), "HEARTBEAT of the attempt that is worked on")
    done.touch()
    for each in (first, second):
        invoker.result(each["jobId"])
        assert invoker.replies(each["jobId"])[-1]["type"] == "RESULT"
        assert {beat["lease_id"] for beat in invoker.replies(each["jobId"], "HEARTBEAT")} == {each["lease_id"]}
    assert invoker.replies(first["jobId"], "HEARTBEAT")[-1]["progress"] == 0.5


def _notes(invoker: Invoker, directive: dict[str, Any]) -> list[str]:
    return [beat["note"] for beat in invoker.replies(directive["jobId"], "HEARTBEAT")]


def test_a_long_note_is_cut(account: BlobAccount) -> None:
    """A heartbeat that is too large for the bus would not renew the lease."""
    directive = Directive.model_validate(new_directive(account, "PROBE"))
    assert len(heartbeat(directive, 0.5, "n" * 300_000)["note"]) == 1000


@pytest.mark.parametrize(
    ("then", "status", "code"),
    [
        ("final", "FAILED_FINAL", "PROBE_FINAL"),
        ("retry", "FAILED_RETRY", "PROBE_RETRY"),
        ("bug", "FAILED_RETRY", "SERVICE_FAULT"),
        ("unheard of", "FAILED_FINAL", "PAYLOAD_INVALID"),
    ],
)
def test_a_failure_is_a_result_with_its_class_and_code(invoker: Invoker, then: str, status: str, code: str) -> None:
    """The step's error becomes the status and the error; the text of a bug stays in the service's log."""
    directive = invoker.directive(payload={"then": then})
    invoker.send(directive)
    result = invoker.result(directive["jobId"])
    assert (status, code) == (result["status"], result["error"]["code"])
    assert result["error"]["message"]
    assert "secret" not in result["error"]["message"]
    assert "result_ref" not in result


def test_a_duplicate_of_work_in_flight_joins_it(invoker: Invoker, tmp_path: Path) -> None:
    """The same attempt delivered twice is worked on once and has one RESULT; both messages are completed."""
    done = tmp_path / "done"
    directive = invoker.directive(payload={"until": str(done)})
    invoker.send(directive)
    invoker.send(directive)
    invoker.wait(lambda: len(invoker.replies(directive["jobId"], "ACK")) == 2, "second ACK")
    done.touch()
    invoker.result(directive["jobId"])
    invoker.wait(lambda: not invoker.left(directive), "completion of both")
    assert len(invoker.replies(directive["jobId"], "RESULT")) == 1
    assert invoker.runs(directive) == 1


def test_a_duplicate_of_finished_work_gets_the_stored_result(invoker: Invoker, account: BlobAccount) -> None:
    """The same attempt after its RESULT is not worked on again: the stored RESULT is sent again, unchanged."""
    directive = invoker.directive()
    invoker.send(directive)
    first = invoker.result(directive["jobId"])
    key = Directive.model_validate(directive).key
    stored = account.download(f"{directive['workspace_ref']['uri']}.attempt/{key}.json").decode()
    assert directive["lease_id"] not in stored
    invoker.send(directive)
    assert first == invoker.result(directive["jobId"], 2)
    assert invoker.runs(directive) == 1


@pytest.mark.parametrize("change", [{"jobId": "another"}, {"lease_digest": "another"}, {"type": "ACK"}, None])
def test_a_result_that_others_stored_is_not_sent(
    invoker: Invoker, account: BlobAccount, change: dict[str, str] | None
) -> None:
    """A stored blob that names another attempt, or is not a RESULT, is not used: the work is done, and its own RESULT
    sent.
    """
    directive = invoker.directive()
    planted = {name: directive[name] for name in ("jobId", "stepId", "tenant_id", "attempt_no")}
    planted |= {"lease_digest": Directive.model_validate(directive).lease_digest}
    planted |= {"type": "RESULT", "status": "SUCCEEDED", "result_ref": {"uri": "https://evil.example/answers.json"}}
    body = b"[]" if change is None else json.dumps(planted | change).encode()
    key = Directive.model_validate(directive).key
    account.write(f"{directive['workspace_ref']['uri']}.attempt/{key}.json", body)
    invoker.send(directive)
    result = invoker.result(directive["jobId"])
    assert "evil.example" not in json.dumps(result)
    assert (result["lease_id"], invoker.runs(directive)) == (directive["lease_id"], 1)


def test_another_lease_or_attempt_is_other_work(invoker: Invoker) -> None:
    """Attempt number and lease are part of an attempt's identity."""
    first = invoker.directive()
    other_lease = {**first, "lease_id": str(uuid4())}
    second_attempt = invoker.directive(jobId=first["jobId"], attempt_no=2)
    for number, directive in enumerate((first, other_lease, second_attempt), 1):
        invoker.send(directive)
        assert directive["lease_id"] == invoker.result(first["jobId"], number)["lease_id"]
    assert (invoker.runs(first), invoker.runs(second_attempt)) == (2, 1)


@pytest.mark.parametrize(
    ("body", "reason", "named"),
    [
        (b"not json", "DirectiveMalformed", "JSON"),
        (b'{"type": "DIRECTIVE", "jobId": "j"}', "DirectiveMalformed", "tenant_id"),
        (b"[]", "DirectiveMalformed", "body"),
    ],
)
def test_a_malformed_directive_is_dead_lettered(invoker: Invoker, body: bytes, reason: str, named: str) -> None:
    """A message that names no attempt is dead-lettered with a reason, and the lane continues."""
    before = {message.message_id for message in invoker.waiting("probe", dead=True)}

    def dead_letters() -> list[tuple[str | None, str | None]]:
        return [
            (message.dead_letter_reason, message.dead_letter_error_description)
            for message in invoker.waiting("probe", dead=True)
            if message.message_id not in before
        ]

    invoker.send(body)
    invoker.wait(lambda: bool(dead_letters()), "dead letter")
    ((actual_reason, description),) = dead_letters()
    assert reason == actual_reason
    assert named in (description or "")
    directive = invoker.directive()
    invoker.send(directive)
    assert invoker.result(directive["jobId"])["status"] == "SUCCEEDED"


def test_a_newer_attempt_supersedes(invoker: Invoker, tmp_path: Path) -> None:
    """Work on an older attempt of the step ends without a RESULT; one that comes after the newer is not worked on."""
    done = tmp_path / "done"
    first = invoker.directive(payload={"until": str(done)})
    second = invoker.directive(jobId=first["jobId"], attempt_no=2)
    late = invoker.directive(jobId=first["jobId"])
    invoker.send(first)
    invoker.wait(lambda: invoker.runs(first) == 1, "the first run")
    invoker.send(second)
    assert invoker.result(first["jobId"])["lease_id"] == second["lease_id"]
    invoker.send(late)
    invoker.wait(lambda: not invoker.left(first), "completion of all")
    assert [each["lease_id"] for each in invoker.replies(first["jobId"], "RESULT")] == [second["lease_id"]]
    assert late["lease_id"] not in {each["lease_id"] for each in invoker.replies(first["jobId"])}
    # the attempts share one workspace but for their number: one run each of the first and the second
    assert (invoker.runs(first), invoker.runs(second)) == (1, 1)


def test_a_result_that_no_message_holds_is_a_failure(invoker: Invoker) -> None:
    """Metrics that are too many, or no JSON, end the attempt with a reason: the bus would never take the RESULT."""
    for metrics, code in (("many", "RESULT_TOO_LARGE"), ("nan", "SERVICE_FAULT")):
        directive = invoker.directive(payload={"metrics": metrics})
        invoker.send(directive)
        assert invoker.result(directive["jobId"])["error"]["code"] == code


def test_artifacts_are_listed_by_the_result(invoker: Invoker, account: BlobAccount) -> None:
    """Name, uri, type, size and SHA-256 of each, the last of a name; the input has its digest too."""
    uri = account.upload("quiet.txt", b"quiet")
    directive = invoker.directive(payload={"artifact": True}, input_ref={"uri": uri})
    invoker.send(directive)
    result = invoker.result(directive["jobId"])
    place = f"{directive['workspace_ref']['uri']}artifacts/page%201.csv"
    (artifact,) = result["artifacts"]
    digest = hashlib.sha256(b"a,b").hexdigest()
    assert artifact == {"name": "page 1.csv", "uri": place, "media_type": "text/csv", "size": 3, "sha256": digest}
    assert account.download(place) == b"a,b"
    assert result["input_digests"] == {"input_ref": f"sha256:{hashlib.sha256(b'quiet').hexdigest()}"}


def test_replies_go_to_the_lane_that_the_directive_names(invoker: Invoker) -> None:
    directive = invoker.directive(lane=0)
    invoker.send(directive, lane=1)
    assert invoker.result(directive["jobId"])["status"] == "SUCCEEDED"
