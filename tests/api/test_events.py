"""`GET /v1/events` over HTTP, with tokens: feeds, positions, and every refusal (R24, R74)."""

from __future__ import annotations

import base64
import json
import uuid
from typing import Any

import httpx
import pytest
from cloudevents.http import from_json
from jsonschema import Draft202012Validator, FormatChecker

from shared.api.feed import FeedPage
from shared.api.response import Problem
from shared.core.events.event_types import PublicType
from tests.api.live import Live, envelope
from tests.api.strict import misfits
from tests.waiting import wait_until

#: a text that Json.NET would rewrite (azure-functions-python-worker issue 1401)
DUE = "2024-01-19T12:50:41.500+02:00"


@pytest.fixture(scope="module")
def tenant() -> str:
    """A tenant of these tests alone."""
    return f"events-{uuid.uuid4()}"


@pytest.fixture(scope="module")
def own(api: Live, tenant: str) -> httpx.Client:
    return api.client(tenant=tenant)


@pytest.fixture(scope="module")
def job_id(own: httpx.Client, tenant: str) -> str:
    """Returns a job whose first directive is sent, with both events in the feed."""
    posted = own.post("/v1/orchestrate", json=envelope(tenant_id=tenant, labels={"team": "a", "due": DUE})).json()
    wait_until(lambda: len(page(own)["events"]) == 2, "the job is not in the feed")
    found: str = posted["jobId"]
    return found


def page(client: httpx.Client, **given: Any) -> dict[str, Any]:
    answer = client.get("/v1/events", params=given)
    assert misfits(FeedPage, answer.raise_for_status().json()) == []
    found: dict[str, Any] = answer.json()
    return found


def test_a_tenant_reads_its_feed(api: Live, own: httpx.Client, job_id: str, tenant: str) -> None:
    """From the first event on, one after another, each as its own public schema describes it."""
    first = page(own, limit=1)
    second = page(own, after=first["next"])
    assert [each["type"] for each in first["events"] + second["events"]] == ["job.queued", "job.leased"]
    assert page(own, after=second["next"]) == {"events": [], "next": second["next"]} == page(own, after="latest")
    for event in first["events"] + second["events"]:
        path = event["dataschema"].removeprefix("https://lucius.example/base")
        schema = api.stack.http.get(path).raise_for_status().json()
        Draft202012Validator(schema, format_checker=FormatChecker()).validate(event)
        read = from_json(json.dumps(event))
        assert (read["subject"], read["tenant"], read.data["jobId"]) == (job_id, tenant, job_id)
    assert own.get("/v1/schemas/events/job.unknown").json()["code"] == "SCHEMA_NOT_FOUND"


@pytest.mark.parametrize(
    ("given", "count"),
    [
        ({"types": "job.queued, job.completed"}, 1),
        ({"terminal": "true"}, 0),
        ({"jobType": "FAX"}, 0),
        ({"label": "team:a"}, 2),
        ({"label": "team:b"}, 0),
        ({"label": f"due:{DUE}"}, 2),
    ],
)
def test_a_page_is_narrowed(own: httpx.Client, job_id: str, given: dict[str, str], count: int) -> None:
    found = page(own, **given)
    assert (len(found["events"]), found["next"]) == (count, page(own)["next"])


def test_an_operator_names_a_tenant(api: Live, own: httpx.Client, job_id: str, tenant: str) -> None:
    assert page(api.operator(), tenant_id=tenant) == page(own)
    other = api.client(tenant=f"other-{uuid.uuid4()}")
    assert page(other)["events"] == []
    refused = other.get("/v1/events", params={"tenant_id": tenant})
    assert (refused.status_code, refused.json()["code"]) == (403, "TENANT_FORBIDDEN")


def test_what_people_change_at_gates(api: Live) -> None:
    """Of a tenant in its own feed; of no tenant in that of `=platform`, which no caller of one tenant reads."""
    tenant, operator = f"gated-{uuid.uuid4()}", api.operator()
    changed = {}
    for whose, job_type in ((tenant, "OCR"), ("*", "EMBEDDING_SIS")):
        names = {"tenant": whose, "type": job_type}
        known = operator.get("/v1/quotas", params=names).json()["quotas"][0]
        body, match = {"max_active": 999, "reason": "month end"}, {"If-Match": known["etag"]}
        path = f"/v1/quotas/{known['id']}"
        operator.patch(path, params=names, json=body, headers=match).raise_for_status()
        # so that no other test is affected by the rule
        reason, match = {"reason": "it is over"}, {"If-Match": "*"}
        operator.delete(path, params={**names, **reason}, headers=match).raise_for_status()
        changed[whose] = known["id"]
    own = api.client(tenant=tenant)
    # nothing of the quota is left to show
    assert [each["kind"] for each in own.get("/v1/quotas").json()["quotas"]] == ["tenant"]
    wait_until(lambda: len(page(own)["events"]) == 2, "the changes are not in the feed")
    event = page(own, types="quota.changed", jobType="OCR")["events"][0]
    assert (event["subject"], event["data"]["payload"]["after"]["rule"]) == (changed[tenant], {"max_active": 999})
    path = event["dataschema"].removeprefix("https://lucius.example/base")
    schema = api.stack.http.get(path).raise_for_status().json()
    Draft202012Validator(schema, format_checker=FormatChecker()).validate(event)
    mine = {"tenant_id": "=platform", "types": "quota.changed"}
    wait_until(lambda: changed["*"] in [each["subject"] for each in page(operator, **mine)["events"]], "not in a feed")
    # as in a URL, with or without an escape
    plain = operator.get("/v1/events?tenant_id==platform&types=quota.changed&limit=1")
    assert plain.json() == page(operator, **{**mine, "limit": 1})
    refused = own.get("/v1/events", params=mine)
    assert (refused.status_code, refused.json()["code"]) == (403, "TENANT_FORBIDDEN")
    stream = operator.get("/v1/events", params={**mine, "after": "earliest"}, headers={"Accept": "text/event-stream"})
    assert changed["*"] in stream.text
    posted = operator.post("/v1/orchestrate", json=envelope(tenant_id="=Platform"))
    assert (posted.status_code, posted.json()["code"]) == (400, "ENVELOPE_INVALID")


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"types": "job.eaten"}, "TYPES_INVALID"),
        ({"types": "job.queued,"}, "TYPES_INVALID"),
        ({"terminal": "1"}, "TERMINAL_INVALID"),
        ({"label": "team"}, "LABEL_INVALID"),
        ({"limit": "0"}, "LIMIT_INVALID"),
        ({"after": "x"}, "CURSOR_INVALID"),
    ],
)
def test_what_is_refused(own: httpx.Client, given: dict[str, str], code: str) -> None:
    answer = own.get("/v1/events", params=given)
    assert (answer.status_code, answer.json()["code"]) == (400, code)


def test_a_cursor_of_another_table_comes_back_with_the_earliest(own: httpx.Client, job_id: str) -> None:
    stranger = base64.urlsafe_b64encode(b"0123456789abcdef:1").decode()
    answer = own.get("/v1/events", params={"after": stranger})
    assert (answer.status_code, answer.json()["code"], misfits(Problem, answer.json())) == (410, "CURSOR_EXPIRED", [])
    assert page(own, after=answer.json()["earliest"]) == page(own)


def test_every_type_has_its_schema(api: Live) -> None:
    listed = {line["name"] for line in api.stack.http.get("/v1/schemas").json()["schemas"]}
    assert {f"events/{type_}" for type_ in PublicType} <= listed
