"""Bulk operations and dependencies over HTTP, with tokens, on a stack whose queue calls the workers (R24, R53, R65,
R66).
"""

from __future__ import annotations

import uuid
from typing import Any

import httpx
import pytest

from shared.api.bulk import Bulk, BulkItemPage, BulkPage, BulkPreview, DependencyPage
from tests.api.live import Live, envelope
from tests.api.strict import misfits
from tests.waiting import wait_until

NOBODY = f"bulk_{'0' * 13}{'0' * 16}"


@pytest.fixture(scope="module")
def tenant() -> str:
    """A tenant of these tests alone."""
    return f"bulk-{uuid.uuid4()}"


@pytest.fixture(scope="module")
def own(api: Live, tenant: str) -> httpx.Client:
    """A caller of the tenant's own."""
    return api.client(tenant=tenant)


def submitted(client: httpx.Client, tenant: str, label: str, **changes: Any) -> str:
    body = envelope(tenant_id=tenant, idempotency_key=str(uuid.uuid4()), labels={"set": label}, **changes)
    return str(client.post("/v1/orchestrate", json=body).raise_for_status().json()["jobId"])


def asked(action: str, label: str, **members: Any) -> dict[str, Any]:
    return {"action": action, "filter": {"label": f"set:{label}"}, "reason": "month end", **members}


def ended(client: httpx.Client, answer: httpx.Response) -> dict[str, Any]:
    """Returns the bulk operation of a response once it is DONE."""
    assert (answer.status_code, misfits(Bulk, answer.json())) == (202, []), answer.text
    path = answer.headers["Location"]
    assert path == answer.json()["links"]["self"]

    def done() -> dict[str, Any] | None:
        found: dict[str, Any] = client.get(path).raise_for_status().json()
        assert found["matched"] == found["done"] + found["refused"] + found["open"]
        return found if found["state"] == "DONE" else None

    return wait_until(done, "the bulk did not end", deadline_s=120)


def test_a_bulk_of_the_own_tenant(own: httpx.Client, tenant: str) -> None:
    """Counted first, then made; its items have their outcomes, its jobs their events; its key makes no second one."""
    jobs = sorted(submitted(own, tenant, "a") for _ in range(25))
    own.post(f"/v1/jobs/{jobs[0]}:cancel").raise_for_status()
    preview = own.post("/v1/bulk", json=asked("pause", "a", dryRun=True))
    assert (preview.status_code, misfits(BulkPreview, preview.json())) == (200, [])
    assert (preview.json()["matched"], preview.json()["more"], len(preview.json()["first"])) == (25, False, 20)
    key = {"Idempotency-Key": str(uuid.uuid4())}
    first = own.post("/v1/bulk", json=asked("pause", "a"), headers=key)
    bulk = ended(own, first)
    assert (bulk["matched"], bulk["done"], bulk["refused"]) == (25, 24, 1)
    again = own.post("/v1/bulk", json=asked("pause", "a"), headers=key)
    assert (again.status_code, again.headers["Idempotency-Replayed"]) == (202, "true")
    assert again.json()["bulkId"] == bulk["bulkId"]
    conflict = own.post("/v1/bulk", json=asked("resume", "a"), headers=key)
    assert (conflict.status_code, conflict.json()["code"]) == (409, "IDEMPOTENCY_CONFLICT")
    pages = [own.get(bulk["links"]["items"] + "&limit=20").json()]
    pages.append(own.get(f"{bulk['links']['items']}&limit=20&cursor={pages[0]['next']}").json())
    assert [misfits(BulkItemPage, each) for each in pages] == [[], []]
    assert [each["jobId"] for page in pages for each in page["items"]] == jobs
    assert pages[1]["next"] is None
    refused = own.get(bulk["links"]["items"] + "&outcome=REFUSED").json()["items"]
    assert [each["jobId"] for each in refused] == jobs[:1]
    # by whether its directive was out
    assert refused[0]["code"] in ("CONTROL_NOT_POSSIBLE", "JOB_TERMINAL")
    assert own.get(f"/v1/jobs/{jobs[1]}").json()["status"] in ("PAUSING", "PAUSED")
    events = own.get(f"/v1/jobs/{jobs[1]}/events").json()["events"]
    [event] = [each for each in events if each["type"] == "PAUSE_REQUESTED"]
    assert (event["reason"], event["source"]) == ("month end", "bulk")
    listed = own.get("/v1/bulk").json()
    assert misfits(BulkPage, listed) == []
    assert [each["bulkId"] for each in listed["bulks"]] == [bulk["bulkId"]]
    stopped = own.post(bulk["links"]["cancel"])
    assert (stopped.status_code, stopped.json()["code"]) == (409, "BULK_ENDED")


def test_others_reach_what_is_theirs(own: httpx.Client, api: Live, tenant: str) -> None:
    """Another tenant's bulk operations do not exist; an operator names the tenant; a reader starts none."""
    job_id = submitted(own, tenant, "b")
    operator, other = api.operator(), api.client(tenant="tenant_b")
    reader = api.client(tenant=tenant, scope="orch:read")
    body = asked("cancel", "b")
    named = {**body, "filter": {**body["filter"], "tenant_id": tenant}}
    bulk = ended(operator, operator.post("/v1/bulk", json=named))
    assert (bulk["done"], bulk["actor"].endswith("(orch:all-tenants)")) == (1, True)
    assert own.get(f"/v1/jobs/{job_id}").json()["status"] in ("CANCELLING", "CANCELLED")
    refused = [
        (reader.post("/v1/bulk", json=body), 403, "SCOPE_MISSING"),
        (other.post("/v1/bulk", json=named), 403, "TENANT_FORBIDDEN"),
        (other.get(bulk["links"]["self"]), 403, "TENANT_FORBIDDEN"),
        (other.get(f"/v1/bulk/{bulk['bulkId']}"), 404, "BULK_NOT_FOUND"),
        (other.get(f"/v1/bulk/{bulk['bulkId']}/items"), 404, "BULK_NOT_FOUND"),
        (other.post(f"/v1/bulk/{bulk['bulkId']}:cancel"), 404, "BULK_NOT_FOUND"),
        (other.post(f"/v1/jobs/{job_id}:redrive", json={"withDependants": True}), 404, "JOB_NOT_FOUND"),
        (other.get(f"/v1/jobs/{job_id}/dependencies"), 404, "JOB_NOT_FOUND"),
        (operator.post("/v1/bulk", json=body), 400, "TENANT_REQUIRED"),
        (operator.post("/v1/bulk", json=body | {"filter": {"tenant_id": " "}}), 400, "TENANT_REQUIRED"),
        (operator.get("/v1/bulk"), 400, "TENANT_REQUIRED"),
    ]
    assert [(answer.status_code, answer.json()["code"]) for answer, _, _ in refused] == [
        (status, code) for _, status, code in refused
    ]
    assert reader.get(bulk["links"]["self"]).status_code == 200


REFUSED: dict[str, tuple[dict[str, Any], str, str]] = {
    "an unknown action": ({"action": "delete"}, "BULK_INVALID", "action"),
    "no reason": ({"reason": None}, "BULK_INVALID", "reason"),
    "no filter": ({"filter": None}, "BULK_INVALID", "filter"),
    "an unknown member": ({"dryrun": True}, "BULK_INVALID", "dryrun"),
    "an unknown word": ({"filter": {"colour": "red"}}, "FILTER_INVALID", "filter.colour"),
    "a state that no job has": ({"filter": {"status": ["BUSY"]}}, "FILTER_INVALID", "filter.status"),
    "a number as a label": ({"filter": {"label": 7}}, "FILTER_INVALID", "filter.label"),
    "a number as a tenant": ({"filter": {"tenant_id": 7}}, "FILTER_INVALID", "filter.tenant_id"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_bulk_that_makes_no_sense_is_refused(own: httpx.Client, name: str) -> None:
    """400, with a stable code and the place of the fault."""
    members, code, path = REFUSED[name]
    answer = own.post("/v1/bulk", json=asked("pause", "none") | members)
    assert (answer.status_code, answer.json()["code"]) == (400, code)
    assert [each["path"] for each in answer.json()["errors"]] == [path]


def test_every_other_refusal(own: httpx.Client) -> None:
    """Unknown bulk operations, outcomes and cursors; a key that is too long."""
    answers = [
        (own.get(f"/v1/bulk/{NOBODY}"), 404, "BULK_NOT_FOUND"),
        (own.get("/v1/bulk/bulk_1"), 404, "BULK_NOT_FOUND"),
        (own.post(f"/v1/bulk/{NOBODY}:cancel"), 404, "BULK_NOT_FOUND"),
        (own.get(f"/v1/bulk/{NOBODY}/items"), 404, "BULK_NOT_FOUND"),
        (own.get(f"/v1/bulk/{NOBODY}/items?outcome=GOOD"), 400, "OUTCOME_INVALID"),
        (own.get(f"/v1/bulk/{NOBODY}/items?cursor=Pz8="), 400, "CURSOR_INVALID"),
        (own.get("/v1/bulk?cursor=Pz8="), 400, "CURSOR_INVALID"),
        (own.post("/v1/bulk", json=asked("pause", "x"), headers={"Idempotency-Key": "k" * 513}), 400, "BULK_INVALID"),
    ]
    assert [(answer.status_code, answer.json()["code"]) for answer, _, _ in answers] == [
        (status, code) for _, status, code in answers
    ]


def test_a_tree_and_its_redrive(own: httpx.Client, tenant: str) -> None:
    """Dependencies and dependants, while the job waits and after it failed; then the tree is redriven."""
    own.post("/v1/limits/pause", json={"source": "tree", "reason": "month end"}).raise_for_status()
    root = submitted(own, tenant, "tree", source="tree")
    below = submitted(own, tenant, "tree", dependencies=[root])
    last = submitted(own, tenant, "tree", dependencies=[below, root])
    found = own.get(f"/v1/jobs/{below}/dependencies").json()
    assert misfits(DependencyPage, found) == []
    assert [each["jobId"] for each in found["dependencies"]] == [root]
    assert [(each["jobId"], each["status"]) for each in found["dependants"]] == [(last, "WAITING_FOR_JOBS")]
    text = own.get(f"/v1/jobs/{last}/explain").json()["waits_for"]
    assert text.startswith(f"2 of its 2 dependencies: {below} (WAITING_FOR_JOBS), {root} (")
    first = own.get(f"/v1/jobs/{root}/dependencies", params={"limit": 1}).json()
    second = own.get(f"/v1/jobs/{root}/dependencies", params={"limit": 1, "cursor": first["next"]}).json()
    both = [page["dependants"][0]["jobId"] for page in (first, second)]
    assert (sorted(both), second["next"]) == (sorted([below, last]), None)
    live = own.post(f"/v1/jobs/{root}:redrive", json={"withDependants": True})
    assert (live.status_code, live.json()["code"]) == (409, "JOB_LIVE")
    both_words = {"withDependants": True, "ignoreDependencies": True}
    assert own.post(f"/v1/jobs/{root}:redrive", json=both_words).json()["code"] == "REASON_INVALID"
    own.post(f"/v1/jobs/{root}:cancel").raise_for_status()
    for job_id in (below, last):
        wait_until(
            lambda job_id=job_id: own.get(f"/v1/jobs/{job_id}").json()["status"] == "FAILED_FINAL",  # type: ignore[misc]
            "a dependant did not fail",
            deadline_s=120,
        )
    failed = own.get(f"/v1/jobs/{root}/dependencies").json()["dependants"]
    assert {(each["jobId"], each["error_code"]) for each in failed} == {
        (each, "DEPENDENCY_FAILED") for each in (below, last)
    }
    bulk = ended(own, own.post(f"/v1/jobs/{root}:redrive", json={"withDependants": True, "reason": "repaired"}))
    assert (bulk["root"], bulk["matched"], bulk["done"], bulk["reason"]) == (root, 3, 3, "repaired")
    again = {each["jobId"]: each["newJobId"] for each in own.get(bulk["links"]["items"]).json()["items"]}
    assert again.keys() == {root, below, last}
    waits_for = own.get(f"/v1/jobs/{again[last]}/dependencies").json()["dependencies"]
    assert [each["jobId"] for each in waits_for] == [again[below], again[root]]
