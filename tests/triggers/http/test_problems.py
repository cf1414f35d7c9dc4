"""The response to each error: status, code, headers and fields."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from pydantic import ValidationError

from shared import archive_refusals, audit_refusals, errors, refusals, webhook_refusals
from shared.apidocs.problem_codes import ProblemCode
from shared.contracts.envelope import Envelope
from shared.operations.gates.admission_turns import BeingCounted, QuotasUnknown
from shared.refusals import MAX_REQUEST_ERROR, MAX_REQUEST_ERRORS, LimitReached
from tests.jobs import ROOT, START
from triggers.http.bodies import UndeclaredJson
from triggers.http.problems import RequestError, problem_body, problem_response

#: of every problem
MEMBERS = {"type", "title", "status", "code", "detail", "errors", "correlation_id"}
SOON = {"Retry-After": "5"}


@dataclass(frozen=True)
class Row:
    """An error, and its response."""

    error: Exception
    status: int
    code: str
    #: beyond the correlation id
    headers: Mapping[str, str] = field(default_factory=dict)
    #: beyond those of every problem
    members: Mapping[str, Any] = field(default_factory=dict)
    #: paths of `errors`
    paths: tuple[str, ...] = ()
    #: text of the error that no caller may read
    secret: str | None = None


def unavailable(error: errors.Transient) -> Row:
    return Row(error, 503, "DEPENDENCY_UNAVAILABLE", SOON, secret=str(error))


def invalid_envelope() -> ValidationError:
    with pytest.raises(ValidationError) as invalid:
        Envelope.model_validate({"tenant_id": 5})
    return invalid.value


#: one row a class, and a row a reason where the code is the reason
ROWS = (
    Row(refusals.TokenMissing(), 401, "TOKEN_MISSING", {"WWW-Authenticate": 'Bearer realm="lucius"'}),
    Row(
        refusals.TokenInvalid("the token has expired"),
        401,
        "TOKEN_INVALID",
        {"WWW-Authenticate": 'Bearer realm="lucius", error="invalid_token", error_description="the token has expired"'},
    ),
    Row(refusals.CallbackTokenInvalid(), 401, "TOKEN_INVALID", {"WWW-Authenticate": "Bearer"}),
    Row(
        refusals.ScopeMissing("orch:read"),
        403,
        "SCOPE_MISSING",
        {"WWW-Authenticate": 'Bearer realm="lucius", error="insufficient_scope", scope="orch:read"'},
    ),
    Row(refusals.TenantMissing("claim tenant_id must name a tenant"), 403, "TENANT_MISSING"),
    Row(refusals.TenantForbidden(), 403, "TENANT_FORBIDDEN"),
    Row(refusals.NotYourAttempt("jobId"), 403, "NOT_YOUR_ATTEMPT"),
    Row(refusals.JobNotFound("job_1"), 404, "JOB_NOT_FOUND"),
    Row(refusals.RejectedNotFound("rej_1"), 404, "REJECTED_NOT_FOUND"),
    Row(refusals.EventsOff(), 404, "EVENTS_OFF"),
    Row(webhook_refusals.WebhooksOff(), 404, "WEBHOOKS_OFF"),
    Row(webhook_refusals.HookNotFound("hook_1"), 404, "HOOK_NOT_FOUND"),
    Row(webhook_refusals.DeliveryNotFound("hook_1", 7), 404, "DELIVERY_NOT_FOUND"),
    Row(webhook_refusals.HookLimit(20), 409, "HOOK_LIMIT"),
    Row(webhook_refusals.DefaultHook(), 409, "DEFAULT_HOOK"),
    Row(webhook_refusals.HookKeyGone("hook_1"), 409, "HOOK_KEY_GONE"),
    Row(webhook_refusals.HookUrlRefused("leads nowhere"), 400, "HOOK_URL_REFUSED", paths=("url",)),
    Row(refusals.CursorExpired("YTox"), 410, "CURSOR_EXPIRED", members={"earliest": "YTox"}),
    Row(refusals.ControlNotPossible("job_1", "CANCELLING", "pause"), 409, "CONTROL_NOT_POSSIBLE"),
    Row(refusals.JobTerminal("job_1", "SUCCEEDED", "cancel"), 409, "JOB_TERMINAL"),
    Row(refusals.DependencyUnknown(["job_9"]), 400, "DEPENDENCY_UNKNOWN"),
    Row(refusals.NotRedrivable("DEPENDENCY_FAILED", "it depends on job_1"), 409, "DEPENDENCY_FAILED"),
    *(
        Row(refusals.FilterInvalid(word, f"{word} is wrong"), 400, f"{word.upper()}_INVALID", paths=(word,))
        for word in ("status", "since", "until", "label", "state", "kind", "archived")
    ),
    Row(archive_refusals.JobArchived("job_1"), 409, "JOB_ARCHIVED"),
    Row(archive_refusals.NotReplayable("PROTOCOL_GONE", "no protocol"), 409, "PROTOCOL_GONE"),
    Row(archive_refusals.NotReplayable("SERVICE_GONE", "no service"), 409, "SERVICE_GONE"),
    Row(archive_refusals.NotAReplay("job_1"), 409, "NOT_A_REPLAY"),
    Row(archive_refusals.TenantLive("acme", 3, is_all=True), 409, "TENANT_LIVE", members={"living": 3}),
    Row(archive_refusals.PurgeForbidden(), 403, "PURGE_FORBIDDEN"),
    Row(archive_refusals.ArchiveGone("job_1"), 410, "ARCHIVE_GONE"),
    Row(archive_refusals.ArchiveInvalid("job_1"), 500, "ARCHIVE_INVALID"),
    Row(refusals.NotRedrivable("JOB_LIVE", "job job_1 is QUEUED"), 409, "JOB_LIVE"),
    Row(refusals.NotRedrivable("JOB_SUCCEEDED", "job job_1 is SUCCEEDED"), 409, "JOB_SUCCEEDED"),
    Row(refusals.NotRedrivable("RESULT_EXPIRED", "the result of step ocr"), 409, "RESULT_EXPIRED"),
    Row(refusals.NotRedrivable("WITHDRAWN", "job job_1 never came to be"), 409, "WITHDRAWN"),
    Row(refusals.IdempotencyConflict("job_1"), 409, "IDEMPOTENCY_CONFLICT", members={"jobId": "job_1"}),
    Row(
        refusals.StillNotApplicable("UNKNOWN_JOB", "no job job_1"),
        409,
        "STILL_NOT_APPLICABLE",
        members={"reason": "UNKNOWN_JOB"},
    ),
    Row(
        refusals.ProtocolUnknown("NOTHING", ["OCR", "SIS"]),
        400,
        "PROTOCOL_UNKNOWN",
        members={"known": ["OCR", "SIS"]},
        paths=("request_type",),
    ),
    Row(refusals.RequestInvalid([("doc_id", "is missing")]), 400, "REQUEST_INVALID", paths=("doc_id",)),
    Row(UndeclaredJson("send Content-Type: application/json"), 415, "NOT_JSON"),
    Row(refusals.DirectiveTooLarge("ocr", 300_000, 200_000), 413, "DIRECTIVE_TOO_LARGE"),
    Row(refusals.BodyTooLarge("the body has 9 bytes; at most 8 are taken"), 413, "BODY_TOO_LARGE"),
    Row(
        refusals.LimitReached("LUCIUS_MAX_INFLIGHT", "10 jobs are active", 30),
        429,
        "LIMIT_REACHED",
        {"Retry-After": "30"},
        {"limit": "LUCIUS_MAX_INFLIGHT"},
    ),
    Row(refusals.BulkNotFound("bulk_1"), 404, "BULK_NOT_FOUND"),
    Row(refusals.BulkLimit(20), 409, "BULK_LIMIT"),
    Row(refusals.BulkEnded("bulk_1"), 409, "BULK_ENDED"),
    Row(refusals.BulkKeyConflict("bulk_1"), 409, "IDEMPOTENCY_CONFLICT"),
    Row(webhook_refusals.HookKeyConflict("hook_1"), 409, "IDEMPOTENCY_CONFLICT"),
    Row(refusals.GateNotFound("0" * 16), 404, "GATE_NOT_FOUND"),
    Row(refusals.IncidentNotFound("inc_job_0"), 404, "INCIDENT_NOT_FOUND"),
    Row(refusals.IncidentSettled("inc_job_0", "DISMISSED"), 409, "INCIDENT_SETTLED"),
    Row(refusals.IncidentNoJob("inc_0"), 409, "INCIDENT_NO_JOB"),
    Row(refusals.GateUnclear(), 400, "GATE_UNCLEAR"),
    Row(refusals.QuotaInvalid(("burst", "has no meaning")), 400, "QUOTA_INVALID", paths=("burst",)),
    Row(refusals.QuotaForbidden(), 403, "QUOTA_FORBIDDEN"),
    Row(refusals.NoBreaker("tenant acme, type OCR"), 409, "NO_BREAKER"),
    Row(refusals.RuleChanged(), 412, "RULE_CHANGED"),
    Row(refusals.TooManyRules(100), 400, "TOO_MANY_RULES"),
    Row(
        RequestError(
            ProblemCode.NOT_READY,
            "the bus is down",
            headers=SOON,
            members={"dependencies": {}},
        ),
        503,
        "NOT_READY",
        SOON,
        {"dependencies": {}},
    ),
    Row(errors.ReplyUnfit("NOT_JSON", "it ends early"), 400, "NOT_JSON"),
    Row(errors.ReplyUnfit("REPLY_INVALID", "status: is missing"), 400, "REPLY_INVALID"),
    Row(errors.ReplyUnfit("LEDGER_REFUSED", "PropertyValueTooLarge"), 400, "LEDGER_REFUSED"),
    Row(errors.ReplyUnfit("UNKNOWN_JOB", "no job job_1"), 404, "UNKNOWN_JOB"),
    unavailable(errors.Interrupted("no answer within 200 s")),
    unavailable(errors.LedgerUnavailable("127.0.0.1:10002 refused")),
    unavailable(errors.JobVanished("job_1")),
    unavailable(errors.RunsUnavailable("https://account.example")),
    unavailable(errors.PublishUnavailable("sb://secret")),
    unavailable(errors.BusUnavailable("sb://secret")),
    unavailable(errors.CountsForbidden()),
    unavailable(errors.ConfigurationUnavailable("https://store.example")),
    unavailable(errors.OrchestrationUnavailable("127.0.0.1:7071 refused")),
    unavailable(errors.KeysUnavailable("https://issuer.example")),
    unavailable(errors.KeyUnavailable("https://vault.example")),
    Row(audit_refusals.AuditOff(), 404, "AUDIT_OFF"),
    Row(
        audit_refusals.HeadsIncomplete(None, 59.1),
        409,
        "HEADS_INCOMPLETE",
        {"Retry-After": "60"},
        {"complete_until": None},
    ),
    Row(audit_refusals.HeadsMissing(START), 409, "HEADS_MISSING", members={"earliest": "2026-01-27T10:00:00Z"}),
    Row(audit_refusals.SigningUnavailable(), 503, "SIGNING_UNAVAILABLE", {"Retry-After": "60"}),
    Row(refusals.Overloaded(), 503, "OVERLOADED", {"Retry-After": "2"}),
    Row(errors.Contended(), 503, "DEPENDENCY_UNAVAILABLE", SOON),
    Row(QuotasUnknown(), 503, "DEPENDENCY_UNAVAILABLE", SOON),
    Row(BeingCounted(), 503, "DEPENDENCY_UNAVAILABLE", SOON),
    Row(errors.CreationWithdrawn(), 503, "DEPENDENCY_UNAVAILABLE", SOON),
    Row(errors.OtherStoreVersion(1, 2), 503, "DEPENDENCY_UNAVAILABLE", SOON),
    Row(errors.Undecodable("tenant_a GATES", "KeyError"), 503, "DEPENDENCY_UNAVAILABLE", SOON, secret="GATES"),
    Row(errors.UnknownStatus(), 503, "DEPENDENCY_UNAVAILABLE", SOON),
    Row(invalid_envelope(), 400, "ENVELOPE_INVALID", paths=("tenant_id", "request_type")),
    Row(errors.LedgerRefused("PropertyValueTooLarge"), 400, "NOT_STORABLE", secret="PropertyValueTooLarge"),
    Row(errors.DataLost("job_1/digest"), 410, "DATA_LOST", secret="digest"),
    Row(errors.Conflict("etag"), 503, "DEPENDENCY_UNAVAILABLE", SOON, secret="etag"),
    Row(errors.AlreadyExists("etag"), 503, "DEPENDENCY_UNAVAILABLE", SOON, secret="etag"),
    Row(ZeroDivisionError("password=hunter2"), 500, "INTERNAL", secret="hunter2"),
)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{type(row.error).__name__}-{row.code}")
def test_each_error_has_its_problem(row: Row) -> None:
    """Status, code, headers and members; the body in a batch is the same one."""
    response = problem_response(row.error, "corr-1")
    problem = json.loads(response.get_body())
    assert (response.status_code, response.mimetype) == (row.status, "application/problem+json")
    assert dict(response.headers) == {"X-Correlation-Id": "corr-1", **row.headers}
    assert (problem["status"], problem["code"], problem["correlation_id"]) == (row.status, row.code, "corr-1")
    assert problem["type"] == f"/v1/problems#{row.code}"
    assert {name: value for name, value in problem.items() if name not in MEMBERS} == row.members
    assert set(row.paths) <= {wrong["path"] for wrong in problem["errors"]}
    assert bool(row.paths) == bool(problem["errors"])
    assert problem["detail"]
    if row.secret is None:
        assert row.code in ("ENVELOPE_INVALID",) or problem["detail"] in str(row.error)
    else:
        assert row.secret not in json.dumps(problem)
    assert problem_body(row.error, "corr-1") == problem


def test_every_error_that_a_caller_may_get_has_a_row() -> None:
    """Every class of `Refused` and `Transient`; only a fault in the code is INTERNAL."""
    tried = {type(row.error) for row in ROWS}
    assert {*_subclasses(refusals.Refused), *_subclasses(errors.Transient)} - tried == set()
    for row in ROWS:
        expected = isinstance(row.error, refusals.Refused | errors.Transient)
        assert not (expected and row.code == "INTERNAL"), row.error


def _subclasses(class_: type[Exception]) -> Iterator[type[Exception]]:
    for subclass in class_.__subclasses__():
        yield subclass
        yield from _subclasses(subclass)


def test_no_code_is_unused() -> None:
    """Each is the code of a row above, or an argument of a call in the triggers. No row has a code of neither table."""
    classes = {type(row.error).code for row in ROWS if isinstance(row.error, refusals.Refused)}
    used = {row.code for row in ROWS}
    for call in _calls("triggers"):
        for argument in (*call.args, *(keyword.value for keyword in call.keywords)):
            if isinstance(argument, ast.Attribute) and ast.unparse(argument.value) == "ProblemCode":
                used.add(ProblemCode[argument.attr])
    assert used | classes == {*ProblemCode, *classes}


def test_the_reason_of_an_unfit_reply_is_a_code() -> None:
    """Each reason that the app raises `ReplyUnfit` with has a row above."""
    raised = {
        call.args[0].value
        for call in _calls("shared")
        if ast.unparse(call.func) == "ReplyUnfit" and isinstance(call.args[0], ast.Constant)
    }
    assert raised == {row.error.reason for row in ROWS if isinstance(row.error, errors.ReplyUnfit)}


def _calls(folder: str) -> Iterator[ast.Call]:
    for path in sorted((ROOT / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                yield node


def test_a_full_limit_has_a_retry_after() -> None:
    """In whole seconds, at least one."""
    response = problem_response(LimitReached("LUCIUS_MAX_INFLIGHT", "10 jobs are active", 30), "corr-1")
    assert int(response.headers["Retry-After"]) > 0


@pytest.mark.parametrize("count", [MAX_REQUEST_ERRORS, MAX_REQUEST_ERRORS + 1])
def test_a_problem_has_so_many_errors(count: int) -> None:
    """Beyond the bound it says that there are more."""
    problem = problem_body(refusals.RequestInvalid([(f"payload.{number}", "is wrong") for number in range(count)]), "c")
    assert len(problem["errors"]) == MAX_REQUEST_ERRORS
    assert ("errors are listed" in problem["detail"]) is (count > MAX_REQUEST_ERRORS)


def test_a_problem_repeats_no_long_value() -> None:
    """Neither in a path nor in a message."""
    problem = problem_body(refusals.RequestInvalid([("payload." + "k" * 100_000, "v" * 100_000)]), "c")
    [error] = problem["errors"]
    assert (len(error["path"]), len(error["message"])) == (MAX_REQUEST_ERROR, MAX_REQUEST_ERROR)


@pytest.mark.parametrize("labels", [dict.fromkeys(map(str, range(100_000)), 1), {"k" * 100_000: 1}])
def test_an_envelope_of_many_or_long_labels_gets_a_small_problem(labels: dict[str, int]) -> None:
    """For any number of invalid labels."""
    with pytest.raises(ValidationError) as invalid:
        Envelope.model_validate({"labels": labels})
    assert invalid.value.error_count() < 20
    assert len(json.dumps(problem_body(invalid.value, "c"))) < 5000
