"""Quotas over HTTP, with tokens: rights to change them, and every refusal (R24, R48)."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from shared.api.quota import Quota, QuotaChange, QuotaLogPage, QuotaPage, QuotaShare, WaitingPage, quota_over_all
from shared.api.usage import SourcePage, UsageReport
from shared.core.gates.queue_position import TenantPart
from shared.core.gates.rules import EVERY, Directory, Gate, GateKind, GateState, Rule
from tests.api.live import Live, envelope
from tests.api.strict import misfits

REASON = {"reason": "month end"}


@pytest.fixture(scope="module")
def tenant() -> str:
    """A tenant of these tests alone."""
    return f"quota-{uuid.uuid4()}"


@pytest.fixture(scope="module")
def own(api: Live, tenant: str) -> httpx.Client:
    """A caller of the tenant's own."""
    return api.client(tenant=tenant)


@pytest.fixture(scope="module")
def operator(api: Live) -> httpx.Client:
    return api.operator()


def gate(client: httpx.Client, tenant: str, **names: str) -> dict[str, Any]:
    answer = client.get("/v1/quotas", params={"tenant": tenant, **names})
    assert misfits(QuotaPage, answer.json()) == []
    found: dict[str, Any] = answer.json()["quotas"][0]
    return found


def patch(client: httpx.Client, known: dict[str, Any], **body: Any) -> httpx.Response:
    names = {name: known[name] for name in ("tenant", "type", "source") if known[name]}
    path = f"/v1/quotas/{known['id']}"
    return client.patch(path, params=names, json={**REASON, **body}, headers={"If-Match": known["etag"]})


def test_an_operator_sets_what_the_tenant_reads(own: httpx.Client, operator: httpx.Client, tenant: str) -> None:
    """Found by names, read with its ETag, changed under it; a further job waits, and shows the quota."""
    known = gate(operator, tenant)
    made = patch(operator, known, max_active=1)
    assert (made.status_code, misfits(QuotaChange, made.json())) == (200, [])
    assert made.headers["ETag"] == made.json()["quota"]["etag"] != known["etag"]
    read = own.get(f"/v1/quotas/{known['id']}")
    assert (read.headers["ETag"], misfits(Quota, read.json())) == (made.headers["ETag"], [])
    assert read.json()["rule"] == {**dict.fromkeys(read.json()["rule"]), "max_active": 1}
    answers = [
        own.post("/v1/orchestrate", json=envelope(tenant_id=tenant, doc_id=str(number))).json() for number in range(2)
    ]
    assert [answer["status"] for answer in answers] == ["QUEUED", "THROTTLED"]
    assert (answers[1]["gate"], answers[1]["position"]) == (f"tenant {tenant}", 1)
    waiting = own.get(f"/v1/quotas/{known['id']}/waiting").json()
    assert misfits(WaitingPage, waiting) == []
    assert [each["jobId"] for each in waiting["waiting"]] == [answers[1]["jobId"]]
    explained = own.get(f"/v1/jobs/{answers[1]['jobId']}/explain").json()
    assert (explained["gate"], explained["stopped_by"], explained["position"]) == ("THROTTLED", f"tenant {tenant}", 1)
    job = own.get(f"/v1/jobs/{answers[1]['jobId']}").json()
    assert (job["status"], job["staged_at"], job["admitted_at"]) == ("THROTTLED", job["created_at"], None)
    path = f"/v1/jobs/{answers[1]['jobId']}:admit"
    assert own.post(path, json=REASON).json()["code"] == "QUOTA_FORBIDDEN"
    assert operator.post(path, json={}).json()["code"] == "REASON_INVALID"
    path, body = f"/v1/jobs/{answers[1]['jobId']}", {"priority": "high", **REASON}
    assert own.patch(path, json=body).json()["priority"] == "high"
    assert [own.patch(path, json=wrong).json()["code"] for wrong in ({}, {**body, "priority": "urgent"})] == [
        "PRIORITY_INVALID"
    ] * 2
    running = own.patch(f"/v1/jobs/{answers[0]['jobId']}", json=body)
    assert (running.status_code, running.json()["code"]) == (409, "CONTROL_NOT_POSSIBLE")
    patch(operator, read.json(), max_active=2).raise_for_status()
    later = own.get(f"/v1/jobs/{answers[1]['jobId']}").json()
    assert (later["status"] == "THROTTLED", later["admitted_at"] is None) == (False, False)
    log = own.get(f"/v1/quotas/{known['id']}/log").json()
    assert misfits(QuotaLogPage, log) == []
    assert [(each["seq"], each["type"], each["reason"]) for each in log["entries"]] == [
        (number, "RULE_SET", "month end") for number in (1, 2)
    ]
    assert log["entries"][0]["actor"].endswith("(orch:all-tenants)")


def test_a_tenant_reads_what_it_used(own: httpx.Client, operator: httpx.Client, api: Live) -> None:
    """Of unfinished hours from the list; its sources with the counts of its quotas; no other tenant's."""
    mine = f"usage-{uuid.uuid4()}"
    client = api.client(tenant=mine)
    client.post("/v1/limits/pause", json={"source": "Scanner-7", **REASON}).raise_for_status()
    jobs = [
        client.post("/v1/orchestrate", json=envelope(tenant_id=mine, doc_id=str(number), source=source)).json()["jobId"]
        for number, source in enumerate(("scanner-7", "scanner-7", "scanner-8"))
    ]
    used = client.get("/v1/usage", params={"by": "source"})
    assert (used.status_code, misfits(UsageReport, used.json())) == (200, [])
    sums = {key: (each["created"], each["staged"]) for key, each in used.json()["groups"].items()}
    assert (sums, used.json()["total"]["created"]) == ({"scanner-7": (2, 2), "scanner-8": (1, 0)}, 3)
    pages = [client.get("/v1/sources", params={"limit": 1}).json()]
    pages.append(client.get("/v1/sources", params={"cursor": pages[0]["next"]}).json())
    assert [misfits(SourcePage, each) for each in pages] == [[], []]
    found = {each["name"]: each for page in pages for each in page["sources"]}
    assert [found["scanner-7"][name] for name in ("first_job", "active", "staged", "held")] == [jobs[0], 0, 2, True]
    assert [found["scanner-8"][name] for name in ("first_job", "active", "staged", "held")] == [jobs[2], *[None] * 3]
    for path in ("/v1/usage", "/v1/sources"):
        assert own.get(path, params={"tenant": mine}).json()["code"] == "TENANT_FORBIDDEN"
        assert operator.get(path).json()["code"] == "TENANT_REQUIRED"
        assert operator.get(path, params={"tenant": mine}).status_code == 200
    # the tenant of the token counts, also with rights over all tenants
    both = api.client(tenant=mine, roles="orch:all-tenants")
    answers = [both.get(path) for path in ("/v1/usage", "/v1/receipts")]
    assert [each.status_code for each in answers] == [200, 200]
    assert answers[1].json()["tenant_id"] == mine
    assert operator.get("/v1/receipts").json()["code"] == "TENANT_REQUIRED"
    wrong = [
        client.get("/v1/usage", params=each).json()["code"]
        for each in ({"by": "day"}, {"since": "2020-01-01T00:00:00Z"})
    ]
    assert wrong == ["BY_INVALID", "SINCE_INVALID"]
    assert client.get("/v1/sources", params={"cursor": "QUNUSVZFOg=="}).json()["code"] == "CURSOR_INVALID"


def test_a_tenants_own_caller_holds_and_never_loosens(
    own: httpx.Client, operator: httpx.Client, tenant: str, api: Live
) -> None:
    """It ends its own changes; an operator's hold stays; another tenant's quotas do not exist for it."""
    source = {"source": "scanner-7", **REASON}
    held = own.post("/v1/limits/pause", json=source)
    assert (held.status_code, held.json()["quota"]["hold"]["reason"]) == (200, "month end")
    assert own.post("/v1/limits/pause", json=source).json()["changed"] is False
    until = {"until": "2126-01-27T10:00:00+01:00"}
    throttled = own.post("/v1/limits/throttle", json={**source, **until, "max_per_hour": 6}).json()["quota"]
    assert (throttled["throttle"]["max_per_hour"], throttled["throttle"]["until"]) == (6, "2126-01-27T09:00:00Z")
    assert own.post("/v1/limits/resume", json=source).json()["quota"]["hold"] is None
    operator.post("/v1/limits/pause", json={"tenant": tenant, **source}).raise_for_status()
    refused = [
        own.post("/v1/limits/resume", json=source),
        patch(own, gate(own, tenant), max_active=50),
        own.delete(f"/v1/quotas/{gate(own, tenant)['id']}", params=REASON, headers={"If-Match": "*"}),
    ]
    assert [(answer.status_code, answer.json()["code"]) for answer in refused] == [(403, "QUOTA_FORBIDDEN")] * 3
    other = api.client(tenant="tenant_b")
    for answer in (
        other.get("/v1/quotas", params={"tenant": tenant}),
        other.post("/v1/limits/pause", json={"tenant": tenant, **source}),
        other.get("/v1/quotas", params={"tenant": "*"}),
    ):
        assert (answer.status_code, answer.json()["code"]) == (403, "TENANT_FORBIDDEN")
    assert other.get(f"/v1/quotas/{gate(own, tenant)['id']}").json()["code"] == "GATE_NOT_FOUND"
    reader = api.client(tenant=tenant, scope="orch:read")
    assert reader.post("/v1/limits/pause", json=source).json()["code"] == "SCOPE_MISSING"
    operator.post("/v1/limits/resume", json={"tenant": tenant, **source}).raise_for_status()


def test_a_breaker_is_set_read_and_reset(own: httpx.Client, operator: httpx.Client, tenant: str) -> None:
    """Of a job type; its members are merged; only an operator resets it; a quota without one is refused."""
    known = gate(operator, tenant, type="OCR")
    assert (known["breaker"], known["rule"]) == (None, None)
    made = patch(operator, known, breaker={"failure_rate": 0.25}).json()
    assert misfits(QuotaChange, made) == []
    numbers = {"failure_rate": 0.25, "min_calls": 10, "cooldown_s": 60}
    assert made["after"]["rule"]["breaker"] == numbers
    assert made["quota"]["in_force"]["breaker"] == {**numbers, "min_tenants": None}
    closed = {"state": "CLOSED", "until": None, "allow": None, "bad": 0, "calls": 0}
    assert gate(own, tenant, type="OCR")["breaker"] == closed
    path, names = f"/v1/quotas/{known['id']}:reset", {"tenant": tenant, "type": "OCR"}
    reset = operator.post(path, params=names, json=REASON)
    assert (reset.status_code, misfits(QuotaChange, reset.json()), reset.json()["changed"]) == (200, [], False)
    merged = patch(operator, made["quota"], breaker={"failure_rate": None, "min_calls": 5}).json()["quota"]
    assert merged["rule"]["breaker"] == {**numbers, "failure_rate": 0.5, "min_calls": 5, "min_tenants": None}
    gone = patch(operator, merged, breaker=None).json()["quota"]
    assert (gone["breaker"], gone["rule"]["breaker"]) == (None, None)
    refused = [
        (own.post(path, params=names, json=REASON), 403, "QUOTA_FORBIDDEN"),
        (operator.post(path, params=names, json={}), 400, "QUOTA_INVALID"),
        (operator.post(path, params=names, json=REASON), 409, "NO_BREAKER"),
        (operator.post(f"/v1/quotas/{'0' * 16}:reset", params={"tenant": tenant}, json=REASON), 404, "GATE_NOT_FOUND"),
        (patch(operator, gone, breaker={"min_tenants": 2}), 400, "QUOTA_INVALID"),
    ]
    answers = [(answer.status_code, answer.json()["code"]) for answer, _, _ in refused]
    assert answers == [(status, code) for _, status, code in refused]


def test_a_breaker_over_all_tenants(operator: httpx.Client, own: httpx.Client) -> None:
    """Of a job type, with its tenants; every caller sees it once, only an operator changes and resets it."""
    known = operator.get("/v1/quotas", params={"name": "type:EMBEDDING"}).json()["quotas"][0]
    path, names = f"/v1/quotas/{known['id']}", {"name": "type:EMBEDDING"}
    match = {"If-Match": "*"}
    try:
        made = operator.patch(path, params=names, json={**REASON, "breaker": {"min_tenants": 3}}, headers=match).json()
        assert misfits(QuotaChange, made) == []
        assert made["quota"]["breaker"]["state"] == "CLOSED"
        assert made["after"]["rule"]["breaker"]["min_tenants"] == 3
        assert own.get(path, params=names).json()["breaker"]["state"] == "CLOSED"
        for params in ({}, {"tenant": "*"}):
            listed = operator.get("/v1/quotas", params=params).json()["quotas"]
            assert [each["id"] for each in listed].count(known["id"]) == 1
        # `lucius quota set --tenant '*'` changes the first one
        assert (listed[0]["tenant"], listed[0]["type"], listed[0]["name"]) == ("*", None, None)
        reset = operator.post(f"{path}:reset", params=names, json=REASON)
        assert (reset.status_code, misfits(QuotaChange, reset.json()), reset.json()["changed"]) == (200, [], False)
        refused = own.post(f"{path}:reset", params=names, json=REASON)
        assert (refused.status_code, refused.json()["code"]) == (403, "QUOTA_FORBIDDEN")
    finally:
        operator.delete(path, params={**names, "reason": "the test is over"}, headers=match).raise_for_status()


def test_a_tenant_reads_no_reason_of_a_quota_over_all_tenants(api: Live, operator: httpx.Client) -> None:
    """The reason may concern another tenant: no response to a tenant's caller has it, and the log is refused."""
    names, why = {"name": "mode:BURST"}, "contoso floods us, ticket 4711"
    own = api.client(tenant=(tenant := f"quota-{uuid.uuid4()}"))
    try:
        held = operator.post("/v1/limits/pause", json={**names, "reason": why}).json()["quota"]
        operator.post("/v1/limits/throttle", json={**names, "max_per_hour": 7, "reason": why}).raise_for_status()
        made = own.post("/v1/orchestrate", json=envelope(tenant_id=tenant, doc_id="burst", mode="BURST")).json()
        assert (made["status"], made["gate"]) == ("THROTTLED", "mode:BURST")
        paths = [f"/v1/quotas/{held['id']}", "/v1/quotas?name=mode:BURST", "/v1/quotas", "/v1/events", "/v1/incidents"]
        paths += [f"/v1/quotas/{held['id']}/waiting", "/v1/sources", "/v1/usage", f"/v1/jobs/{made['jobId']}"]
        paths += [f"/v1/jobs/{made['jobId']}/{part}" for part in ("explain", "events", "audit")]
        answers = [own.get(path) for path in paths]
        query = '{ quotas(name: "mode:BURST") { quotas { hold { reason actor at } throttle { reason actor } } } }'
        answers.append(own.post("/v1/graphql", json={"query": query}))
        assert [answer.status_code for answer in answers] == [200] * len(answers)
        for answer in answers:
            assert why not in answer.text, answer.url
            assert held["hold"]["actor"] not in answer.text, answer.url
        read = answers[0].json()
        assert misfits(Quota, read) == []
        unsaid = {"reason": None, "actor": None, "at": held["hold"]["at"], "until": None}
        assert (read["hold"], read["throttle"]["max_per_hour"], read["throttle"]["reason"]) == (unsaid, 7, None)
        refused = own.get(f"/v1/quotas/{held['id']}/log")
        assert (refused.status_code, refused.json()["code"]) == (403, "QUOTA_FORBIDDEN")
        assert operator.get(f"/v1/quotas/{held['id']}").json()["hold"]["reason"] == why
        entries = operator.get(f"/v1/quotas/{held['id']}/log").json()["entries"]
        assert [each["reason"] for each in entries[-2:]] == [why] * 2
    finally:
        operator.post("/v1/limits/resume", json={**names, "reason": "the test is over"}).raise_for_status()


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a number of 0": ({"max_active": 0}, "QUOTA_INVALID"),
    "a negative number": ({"max_active": -1}, "QUOTA_INVALID"),
    "a burst of 0": ({"max_per_hour": 60, "burst": 0}, "QUOTA_INVALID"),
    "a burst alone": ({"burst": 5}, "QUOTA_INVALID"),
    "a truth value": ({"max_active": True}, "QUOTA_INVALID"),
    "a fraction": ({"max_active": 1.5}, "QUOTA_INVALID"),
    "a number past all sense": ({"max_per_hour": 10**12}, "QUOTA_INVALID"),
    "an unknown field": ({"maxActive": 1}, "QUOTA_INVALID"),
    "a breaker of a tenant": ({"breaker": {}}, "QUOTA_INVALID"),
    "a rate of 0": ({"breaker": {"failure_rate": 0}}, "QUOTA_INVALID"),
    "a rate above 1": ({"breaker": {"failure_rate": 1.01}}, "QUOTA_INVALID"),
    "more ends than are kept": ({"breaker": {"min_calls": 51}}, "QUOTA_INVALID"),
    "no cool-down": ({"breaker": {"cooldown_s": 0}}, "QUOTA_INVALID"),
    "an unknown number of a breaker": ({"breaker": {"rate": 1}}, "QUOTA_INVALID"),
    "a breaker that is no object": ({"breaker": True}, "QUOTA_INVALID"),
    "a blank reason": ({"max_active": 1, "reason": " "}, "QUOTA_INVALID"),
    "no reason": ({"max_active": 1, "reason": None}, "QUOTA_INVALID"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_rule_that_makes_no_sense_is_refused(operator: httpx.Client, tenant: str, name: str) -> None:
    """400, with the path and a stable code, and nothing is changed."""
    body, code = REFUSED[name]
    before = gate(operator, tenant)
    answer = patch(operator, before, **body)
    assert (answer.status_code, answer.json()["code"], bool(answer.json()["errors"])) == (400, code, True)
    assert gate(operator, tenant) == before


def test_every_other_refusal(operator: httpx.Client, tenant: str) -> None:
    """A stale, missing or invalid ETag; two quotas, none, and one over all tenants; unknown quotas."""
    known = gate(operator, tenant)
    path, body = f"/v1/quotas/{known['id']}?tenant={tenant}", {"max_active": 7, **REASON}
    refused = [
        (operator.patch(path, json=body, headers={"If-Match": f'"{9:032x}"'}), 412, "RULE_CHANGED"),
        (operator.patch(path, json=body, headers={"If-Match": "7"}), 412, "RULE_CHANGED"),
        (operator.patch(path, json=body), 428, "IF_MATCH_REQUIRED"),
        (operator.patch(f"/v1/quotas/{known['id']}", json=body), 400, "TENANT_REQUIRED"),
        (operator.get(f"/v1/quotas/{'0' * 16}?tenant={tenant}"), 404, "GATE_NOT_FOUND"),
        (operator.get(f"/v1/quotas?tenant={tenant}&type=FAX"), 404, "GATE_NOT_FOUND"),
        (operator.get(f"/v1/quotas?tenant={tenant}&type=OCR&source=s"), 400, "GATE_UNCLEAR"),
        (operator.delete(path, headers={"If-Match": "*"}), 400, "QUOTA_INVALID"),
        (operator.get(f"{path.replace('?', '/waiting?')}&cursor=eA=="), 400, "CURSOR_INVALID"),
        (operator.get(f"{path.replace('?', '/log?')}&cursor=eA=="), 400, "CURSOR_INVALID"),
    ]
    holds: list[tuple[dict[str, Any], int, str]] = [
        ({"tenant": tenant}, 400, "QUOTA_INVALID"),
        ({**REASON}, 400, "GATE_UNCLEAR"),
        ({**REASON, "tenant": tenant, "job_type": "OCR", "source": "s"}, 400, "GATE_UNCLEAR"),
        ({**REASON, "tenant": tenant, "service": "ocr"}, 400, "GATE_UNCLEAR"),
        ({**REASON, "service": "nobody"}, 404, "GATE_NOT_FOUND"),
        ({**REASON, "tenant": "*"}, 400, "QUOTA_INVALID"),
        ({**REASON, "tenant": tenant, "until": 7}, 400, "QUOTA_INVALID"),
        ({**REASON, "tenant": tenant, "until": "2027-01-01T00:00:00"}, 400, "QUOTA_INVALID"),
    ]
    refused += [(operator.post("/v1/limits/pause", json=given), status, code) for given, status, code in holds]
    answers = [(answer.status_code, answer.json()["code"]) for answer, _, _ in refused]
    assert answers == [(status, code) for _, status, code in refused]
    assert gate(operator, tenant) == known


def test_a_dry_run_and_a_rule_for_every_tenant(operator: httpx.Client) -> None:
    """Both over HTTP: the effect of a change, and the rules of tenant `*`, which need a type."""
    fax = gate(operator, "*", type="*")
    params = {"tenant": "*", "type": "*", "dryRun": "true"}
    headers = {"If-Match": fax["etag"]}
    answer = operator.patch(f"/v1/quotas/{fax['id']}", params=params, json={**REASON, "max_active": 9}, headers=headers)
    assert (answer.status_code, misfits(QuotaChange, answer.json())) == (200, [])
    assert (answer.json()["dryRun"], answer.json()["released"]) == (True, None)
    assert answer.json()["quota"]["in_force"]["max_active"] == 9
    assert gate(operator, "*", type="*") == fax
    everybody = operator.get("/v1/quotas").json()
    assert misfits(QuotaPage, everybody) == []
    assert everybody["quotas"][0]["tenant"] == "*"


def test_a_quota_over_all_tenants_shows_each_tenants_share() -> None:
    found, at = Gate(GateKind.PLATFORM, EVERY), datetime(2026, 1, 27, tzinfo=UTC)
    part = TenantPart("tenant_a", slots=3, active=2, waiting=1, oldest=None)
    shown = quota_over_all(Directory(), GateState(gate=found, rule=Rule(max_active=5)), at, [part], shows_reasons=True)
    assert shown.shares == [QuotaShare(tenant="tenant_a", keep=3, active=2, waiting=1)]


def test_a_limit_of_the_settings_is_no_limit_of_the_quotas_own() -> None:
    found, at = Gate(GateKind.PLATFORM, EVERY), datetime(2026, 1, 27, tzinfo=UTC)
    state = GateState(gate=found, rule=Rule(max_active=5, setting="LUCIUS_MAX_INFLIGHT"))
    shown = quota_over_all(Directory(over_all={found.id: state}), state, at, [], shows_reasons=True)
    assert (shown.rule, shown.ruled_by) == (None, "LUCIUS_MAX_INFLIGHT")
    assert shown.in_force is not None
    assert shown.in_force.max_active == 5
