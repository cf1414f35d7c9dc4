"""GraphQL queries: the same values as other routes, and errors (R83)."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from typing import Any

import azure.functions as func
import pytest
from graphql import GraphQLObjectType, GraphQLSchema, build_schema, get_named_type, validate_schema

from shared.access.caller import Scope
from shared.errors import LedgerUnavailable
from tests.operations.conftest import World
from tests.triggers.graphql.conftest import READER, SUBSCRIPTION, Api, codes, in_feed, refusal
from tests.worlds.events import of
from triggers import graphql_http


@pytest.fixture(scope="module")
def schema() -> GraphQLSchema:
    return build_schema(graphql_http.schema())


def selection(of_type: Any) -> str:
    """Every field that there is, down to the leaves."""
    named = get_named_type(of_type)
    if not isinstance(named, GraphQLObjectType):
        return ""
    return "{" + " ".join(f"{name}{selection(each.type)}" for name, each in named.fields.items()) + "}"


def same(found: Any, expected: Any) -> None:
    """A member that an answer leaves out is null here."""
    if isinstance(found, dict) and isinstance(expected, dict):
        assert expected.keys() <= found.keys()
        for name, each in found.items():
            same(each, expected.get(name))
    elif isinstance(found, list):
        for one, other in zip(found, expected, strict=True):
            same(one, other)
    else:
        assert found == expected


def test_the_schema_is_valid(schema: GraphQLSchema) -> None:
    assert validate_schema(schema) == []
    assert schema.mutation_type is None


async def test_values_are_those_of_the_routes(api: Api, schema: GraphQLSchema) -> None:
    """Every field of each query."""
    job_id = await in_feed(api, labels={"team": "leases"})
    asked = {
        "job": (f'(id: "{job_id}", asOf: 1)', await api.get("job_read", {"jobId": job_id}, asOf="1")),
        "jobs": (
            '(status: ["QUEUED", "IN_PROGRESS"], label: "team:leases", limit: 1)',
            await api.get("jobs_list", status="QUEUED,IN_PROGRESS", label="team:leases", limit="1"),
        ),
        "events": (
            f'(after: "earliest", jobId: "{job_id}", terminal: false)',
            await api.get("events_read", after="earliest", jobId=job_id),
        ),
        "quotas": ("", await api.get("quotas_list")),
    }
    assert schema.query_type is not None
    for name, (arguments, expected) in asked.items():
        answer = await api.query(f"{{{name}{arguments}{selection(schema.query_type.fields[name].type)}}}")
        assert "errors" not in answer, answer
        same(answer["data"][name], expected)
        assert expected.get(name) or name == "job"


async def test_a_page_goes_on_from_its_cursor(api: Api) -> None:
    expected = {await in_feed(api, doc_id=str(number), idempotency_key=str(number)) for number in range(3)}
    document = "query ($cursor: String) {jobs(limit: 2, cursor: $cursor) {jobs {jobId} next}}"
    first = (await api.query(document))["data"]["jobs"]
    second = (await api.query(document, {"cursor": first["next"]}))["data"]["jobs"]
    assert {each["jobId"] for each in (*first["jobs"], *second["jobs"])} == expected
    assert second["next"] is None


async def test_another_tenants_job_is_not_there(api: Api) -> None:
    """The other fields of the request are."""
    job_id, own = await in_feed(api, tenant_id="tenant_b"), await in_feed(api)
    answer = await api.query(
        f'{{other: job(id: "{job_id}") {{jobId}} own: job(id: "{own}") {{jobId}} no: job(id: "/") {{jobId}}}}'
    )
    assert answer["data"] == {"other": None, "own": {"jobId": own}, "no": None}
    assert sorted(codes(answer)) == [("JOB_NOT_FOUND", ["no"]), ("JOB_NOT_FOUND", ["other"])]
    assert answer["errors"][0]["extensions"]["status"] == 404
    assert (await api.query("{jobs {jobs {jobId}}}"))["data"]["jobs"]["jobs"] == [{"jobId": own}]
    subjects = (await api.query("{events {events {subject}}}"))["data"]["events"]["events"]
    assert {each["subject"] for each in subjects} == {own}


@pytest.mark.parametrize(
    ("field", "code"),
    [
        ('jobs(tenant_id: "tenant_b") {next}', "TENANT_FORBIDDEN"),
        ('events(tenant_id: "tenant_b") {next}', "TENANT_FORBIDDEN"),
        ('quotas(tenant: "tenant_b") {next}', "TENANT_FORBIDDEN"),
        ("jobs(limit: 101) {next}", "LIMIT_INVALID"),
        ("jobs(limit: 0) {next}", "LIMIT_INVALID"),
        ('jobs(cursor: "x") {next}', "CURSOR_INVALID"),
        ('jobs(status: "GONE") {next}', "STATUS_INVALID"),
        ("jobs(status: []) {next}", "STATUS_INVALID"),
        ('events(after: "x") {next}', "CURSOR_INVALID"),
        ('events(types: ["job.gone"]) {next}', "TYPES_INVALID"),
        ('events(after: "c3RyYW5nZXI6MQ==") {next}', "CURSOR_EXPIRED"),
        ('job(id: "x", asOf: 0) {jobId}', "AS_OF_INVALID"),
    ],
)
async def test_a_refused_field_is_null(api: Api, field: str, code: str) -> None:
    """With the code that the route's problem has."""
    answer = await api.query(f"{{{field}}}")
    name = field.partition("(")[0]
    assert (answer["data"], codes(answer)) == ({name: None}, [(code, [name])])
    if code == "CURSOR_EXPIRED":
        assert answer["errors"][0]["extensions"]["earliest"]


@pytest.mark.parametrize(
    ("document", "variables", "name"),
    [
        ("", None, None),
        ("{jobs {next}", None, None),
        ("{jobs}", None, None),
        ("{nothing}", None, None),
        ("{jobs {nothing}}", None, None),
        ("{jobs(limit: 1.5) {next}}", None, None),
        (f"{{jobs(limit: {'9' * 5_000}) {{next}}}}", None, None),
        ("{job {jobId}}", None, None),
        ("mutation {cancel}", None, None),
        ("type A {b: Int}", None, None),
        ("{jobs {...a}} fragment a on JobPage {...b} fragment b on JobPage {...a}", None, None),
        ("{jobs {... @defer {next}}}", None, None),
        ("subscription {a: events {cursor} b: events {cursor}}", None, None),
        ("query ($limit: Int) {jobs(limit: $limit) {next}}", {"limit": "1"}, None),
        ("query ($limit: Int) {jobs(limit: $limit) {next}}", {"limit": 2**31}, None),
        ("query ($limit: Int) {jobs(limit: $limit) {next}}", {"limit": {"$ne": 1}}, None),
        ("query ($id: String!) {job(id: $id) {jobId}}", {}, None),
        ("query ($id: String!) {job(id: $id) {jobId}}", {"id": None}, None),
        ("query a {jobs {next}} query b {jobs {next}}", None, None),
        ("query a {jobs {next}}", None, "b"),
    ],
)
async def test_what_does_not_fit_is_an_error(api: Api, document: str, variables: Any, name: str | None) -> None:
    """200 with `errors`, and no `data`: nothing was read."""
    answer = await api.query(document, variables, operationName=name)
    assert "data" not in answer
    assert {each["extensions"]["code"] for each in answer["errors"]} == {"QUERY_INVALID"}
    # by GraphQL over SSE the same, and then it is over
    refused = await api.post(
        {"query": document, "variables": variables, "operationName": name}, accept="text/event-stream"
    )
    assert (
        refused.get_body().decode()
        == f"event: next\ndata: {json.dumps(answer, ensure_ascii=False)}\n\nevent: complete\ndata: \n\n"
    )


async def test_who_may_not_read_is_refused(world: World) -> None:
    nobody = Api(of(world), replace(READER, scopes=frozenset({Scope.OPERATE})))
    assert await refusal(nobody, {"query": "{jobs {next}}"}) == (403, "SCOPE_MISSING")


async def test_who_sees_all_tenants_names_one(world: World) -> None:
    """As the routes have it; their jobs it sees."""
    operator = Api(of(world), replace(READER, tenant=None, sees_all=True))
    job_id = await in_feed(operator, tenant_id="tenant_b")
    answer = await operator.query(f'{{job(id: "{job_id}") {{tenant_id}} events {{next}} quotas {{quotas {{tenant}}}}}}')
    assert (answer["data"]["job"], codes(answer)) == ({"tenant_id": "tenant_b"}, [("TENANT_REQUIRED", ["events"])])
    [message] = await operator.stream(SUBSCRIPTION.replace("jobId: $jobId", 'jobId: $jobId, tenant_id: "tenant_b"'))
    assert message[1]["data"]["events"]["cursor"]


async def test_each_read_leaves_an_access_line(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """Like the line of the route, so that a search of the log for readers of a job finds these reads too."""
    operator = Api(of(world), replace(READER, tenant=None, sees_all=True))
    job_id = await in_feed(operator)
    caplog.set_level(logging.INFO)
    document = f'{{job(id: "{job_id}") {{jobId}} no: job(id: "job_0") {{jobId}} jobs(label: "x:s3cret") {{next}}}}'
    await operator.post({"query": document}, **{"X-Correlation-Id": "read-1"})
    lines = [json.loads(each.message) for each in caplog.records if '"ACCESS"' in each.message]
    assert lines[-1]["route"] == "/v1/graphql"
    found = {(line["method"], line["route"], line["status"], line.get("jobId"), line.get("reason")) for line in lines}
    assert found == {
        ("GET", "/v1/jobs/{jobId}", 200, job_id, None),
        ("GET", "/v1/jobs/{jobId}", 404, "job_0", "JOB_NOT_FOUND"),
        ("GET", "/v1/jobs", 200, None, None),
        ("POST", "/v1/graphql", 200, None, None),
    }
    assert {(line["actor"], line["all_tenants"], line["correlation_id"]) for line in lines} == {
        ("app:reader", True, "read-1")
    }
    assert "s3cret" not in caplog.text


async def test_a_field_whose_store_is_away_is_null(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fails(*_given: Any, **_named: Any) -> Any:
        raise LedgerUnavailable("away")

    assert api.context.events is not None
    monkeypatch.setattr(api.context.events.feed, "head", fails)
    answer = await api.query('{jobs {next} events(after: "latest") {next}}')
    assert (answer["data"]["events"], codes(answer)) == (None, [("DEPENDENCY_UNAVAILABLE", ["events"])])
    assert answer["data"]["jobs"] is not None
    # of a subscription it is no end
    assert await refusal(api, {"query": SUBSCRIPTION}, "text/event-stream") == (503, "DEPENDENCY_UNAVAILABLE")


async def test_a_fault_of_ours_shows_nothing_of_itself(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fails(*_given: Any, **_named: Any) -> Any:
        raise ZeroDivisionError("secret")

    assert api.context.events is not None
    monkeypatch.setattr(api.context.events.feed, "head", fails)
    answer = await api.query('{events(after: "latest") {next}}')
    assert codes(answer) == [("INTERNAL", ["events"])]
    assert "secret" not in json.dumps(answer)


async def test_the_schema_is_served(api: Api) -> None:
    answer = await api.call("graphql_schema", func.HttpRequest("GET", "/v1/schema.graphql", body=b""))
    assert (answer.status_code, answer.get_body().decode()) == (200, graphql_http.schema())
