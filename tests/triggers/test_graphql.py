"""GraphQL without HTTP: what is refused, what is an error, and values that are those of the other routes (R83)."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, cast

import azure.durable_functions as df
import azure.functions as func
import pytest
from graphql import GraphQLObjectType, GraphQLSchema, build_schema, get_named_type, validate_schema

from shared.access.caller import Caller, Scope
from shared.errors import LedgerUnavailable
from shared.operations.context import Context
from shared.operations.waiters import MAX_FOLLOWERS
from shared.wiring import Wiring
from tests.operations.conftest import World, world
from tests.operations.support import submitted
from tests.operations.test_feed import Fed, of
from triggers import events_http, graphql_http, jobs_http, quotas_http
from triggers.graphql_execution import MAX_FIELDS, MAX_READS, MAX_SAME

__all__ = ["world"]  # a fixture of the operations' tests

READER = Caller(actor="app:reader", scopes=frozenset({Scope.READ}), tenant="tenant_a")
SUBSCRIPTION = (
    "subscription ($after: String, $jobId: String) {events(after: $after, jobId: $jobId) {cursor gap event {id}}}"
)


class OneWiring:
    """Over the memory stores; every token is the caller's."""

    def __init__(self, context: Context, caller: Caller) -> None:
        self._context, self._caller = context, caller

    def callers(self) -> OneWiring:
        return self

    async def caller(self, authorization: str | None) -> Caller:
        return self._caller

    def context(self) -> Context:
        return self._context

    async def fresh_context(self) -> Context:
        return self._context


class Api:
    """Functions of the app, called as the host calls them."""

    def __init__(self, fed: Fed, caller: Caller = READER) -> None:
        self.fed, self.context = fed, fed.world.context
        wiring = cast(Wiring, OneWiring(self.context, caller))
        app = df.DFApp()
        for module in (jobs_http, events_http, quotas_http, graphql_http):
            app.register_functions(module.blueprint(wiring))
        self._functions = {one.get_function_name(): one.get_user_function() for one in app.get_functions()}

    async def call(self, function: str, request: func.HttpRequest) -> func.HttpResponse:
        called: Any = self._functions[function]
        answer = await called(request)
        assert isinstance(answer, func.HttpResponse)
        return answer

    async def get(self, function: str, path: dict[str, str] | None = None, **query: str) -> Any:
        request = func.HttpRequest("GET", "/", params=query, route_params=path or {}, body=b"")
        return json.loads((await self.call(function, request)).get_body())

    async def post(self, body: Any, accept: str | None = None, **headers: str) -> func.HttpResponse:
        sent = {"Content-Type": "application/json", **({"Accept": accept} if accept else {}), **headers}
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return await self.call("graphql", func.HttpRequest("POST", "/v1/graphql", headers=sent, body=data))

    async def query(self, document: str, variables: Any = None, **more: Any) -> dict[str, Any]:
        answer = await self.post({"query": document, "variables": variables, **more})
        assert (answer.status_code, answer.mimetype) == (200, "application/json"), answer.get_body()
        return dict(json.loads(answer.get_body()))

    async def stream(self, document: str, **variables: Any) -> list[tuple[str, Any]]:
        """Messages of one answer."""
        answer = await self.post({"query": document, "variables": variables}, "text/event-stream")
        assert (answer.status_code, answer.mimetype) == (200, "text/event-stream"), answer.get_body()
        assert (answer.headers["Cache-Control"], answer.headers["Vary"]) == ("no-store", "Accept")
        found = []
        for message in answer.get_body().decode().split("\n\n"):
            lines = dict(line.partition(": ")[::2] for line in message.split("\n") if line and line[0] != ":")
            if "event" in lines:
                found.append((lines["event"], json.loads(lines["data"] or "null")))
        return found


@pytest.fixture
def api(world: World) -> Api:
    return Api(of(world))


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events_http, "HOLD_S", 0.01)


@pytest.fixture(scope="module")
def schema() -> GraphQLSchema:
    return build_schema(graphql_http.schema())


async def in_feed(api: Api, **changes: Any) -> str:
    job_id = await submitted(api.fed.world, **changes)
    await api.fed.taken()
    return job_id


async def refusal(api: Api, body: Any, accept: str | None = None, **headers: str) -> tuple[int, str]:
    answer = await api.post(body, accept, **headers)
    assert answer.mimetype == "application/problem+json"
    return answer.status_code, json.loads(answer.get_body())["code"]


def codes(answer: dict[str, Any]) -> list[tuple[str, Any]]:
    return [(each["extensions"]["code"], each.get("path")) for each in answer["errors"]]


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


def nested(fields: int) -> str:
    return "{" + "a {" * (fields - 1) + "a" + "}" * fields


@pytest.mark.parametrize(
    "document",
    [
        nested(7),
        nested(3_000),
        "{jobs(status: " + "[" * 8_000,
        "query ($a: " + "[" * 8_000 + "Int" + "]" * 8_000 + ") {jobs {next}}",
        "{a {b {c {...d}}}} fragment d on A {e {f {g {h}}}}",
        "{__schema {types {fields {type {ofType {ofType {name}}}}}}}",
        "{" + " ".join(f"a{n}: jobs {{next}}" for n in range(MAX_READS + 1)) + "}",
        "{...a} fragment a on Query {" + " ".join(f"a{n}: jobs {{next}}" for n in range(MAX_READS + 1)) + "}",
        "{events {events {" + " ".join(f"a{n}: data" for n in range(MAX_SAME + 1)) + "}}}",
        "{events {events {"
        + "...a " * 3
        + "}}} fragment a on PublicEvent {"
        + " ".join(f"a{n}: data" for n in range(7))
        + "}",
        "{jobs {" + " ".join(f"a{n}" for n in range(MAX_FIELDS)) + "}}",
        "{jobs {" + "... {" * MAX_FIELDS + "next" + "}" * MAX_FIELDS + "}}",
        "{jobs {...f0}} fragment f9 on JobPage {next} "
        + " ".join(f"fragment f{n} on JobPage {{...f{n + 1} ...f{n + 1}}}" for n in range(9)),
        "{jobs {next}} " + " ".join(f"fragment f{n} on JobPage {{next}}" for n in range(MAX_FIELDS)),
    ],
)
async def test_a_document_past_a_bound_is_refused(api: Api, document: str) -> None:
    """Before it is checked or executed; aliases do not help."""
    assert await refusal(api, {"query": document}) == (400, "QUERY_TOO_COMPLEX")


@pytest.mark.parametrize(
    "document",
    [
        '{job(id: "x") {steps {result {artifacts {uri}}}}}',
        nested(6),
        "{" + " ".join(f"a{n}: jobs {{next}}" for n in range(MAX_READS)) + "}",
        "{jobs {...f0}} fragment f150 on JobPage {next} "
        + " ".join(f"fragment f{n} on JobPage {{...f{n + 1}}}" for n in range(150)),
        "{jobs {" + "... {" * 50 + "next" + "}" * 52,
        '{__type(name: "Job") {fields {name type {kind name ofType {name}}}}}',
        "query (" + " ".join(f"$v{n}: Int" for n in range(1_000)) + ") {jobs {next}}",
        "{jobs {next " + "@skip(if: true) " * 900 + "}}",
    ],
)
async def test_a_document_within_its_bounds_is_not(api: Api, document: str) -> None:
    assert (await api.post({"query": document})).status_code == 200


async def test_a_document_may_repeat_in_its_errors_only_a_little(api: Api) -> None:
    document = "{jobs(" + " ".join(f"a{n}: 1" for n in range(1_500)) + ") {next}}"
    assert len(json.dumps(await api.query(document))) < 32_000


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"", (400, "QUERY_INVALID")),
        (b"{", (400, "NOT_JSON")),
        ([{"query": "{jobs {next}}"}], (400, "QUERY_INVALID")),
        ({}, (400, "QUERY_INVALID")),
        ({"query": 1}, (400, "QUERY_INVALID")),
        ({"query": "{jobs {next}}", "variables": []}, (400, "QUERY_INVALID")),
        ({"query": "{jobs {next}}", "operationName": 1}, (400, "QUERY_INVALID")),
        ({"query": "#" * 16_384}, (413, "BODY_TOO_LARGE")),
    ],
)
async def test_a_body_that_is_no_request_is_refused(api: Api, body: Any, expected: tuple[int, str]) -> None:
    """Several at once are none; a member that nobody reads does no harm."""
    assert await refusal(api, body) == expected
    assert "data" in await api.query("{jobs {next}}", extensions={"a": 1}, more=True)


async def test_the_type_of_the_answer_is_one_that_is_asked_for(api: Api) -> None:
    asked, followed = {"query": "{jobs {next}}"}, {"query": SUBSCRIPTION}
    for accept in (
        None,
        "*/*",
        "application/*",
        "Application/JSON;q=0.5, text/html",
        "text/event-stream, application/json",
    ):
        assert (await api.post(asked, accept)).mimetype == "application/json"
    assert await api.stream(asked["query"]) == [("next", {"data": {"jobs": {"next": None}}}), ("complete", None)]
    for accept in (None, "*/*", "text/*", "text/event-stream"):
        assert (await api.post(followed, accept)).mimetype == "text/event-stream"
    assert await refusal(api, followed, "application/json") == (406, "ACCEPT_INVALID")
    assert await refusal(api, asked, "text/html") == (406, "ACCEPT_INVALID")
    assert await refusal(api, asked, **{"Content-Type": "text/plain"}) == (415, "NOT_JSON")


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
    """As the route has it, so that whoever asks the log who read which job finds these reads too."""
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

    assert api.context.feed is not None
    monkeypatch.setattr(api.context.feed, "head", fails)
    answer = await api.query('{jobs {next} events(after: "latest") {next}}')
    assert (answer["data"]["events"], codes(answer)) == (None, [("DEPENDENCY_UNAVAILABLE", ["events"])])
    assert answer["data"]["jobs"] is not None
    # of a subscription it is no end
    assert await refusal(api, {"query": SUBSCRIPTION}, "text/event-stream") == (503, "DEPENDENCY_UNAVAILABLE")


async def test_a_fault_of_ours_shows_nothing_of_itself(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fails(*_given: Any, **_named: Any) -> Any:
        raise ZeroDivisionError("secret")

    assert api.context.feed is not None
    monkeypatch.setattr(api.context.feed, "head", fails)
    answer = await api.query('{events(after: "latest") {next}}')
    assert codes(answer) == [("INTERNAL", ["events"])]
    assert "secret" not in json.dumps(answer)


async def test_each_message_has_the_cursor_behind_it(api: Api) -> None:
    """Whoever drops after any message and comes back with its cursor gets the rest, each event once."""
    [(kind, first)] = await api.stream(SUBSCRIPTION)
    assert (kind, first["data"]["events"]["event"]) == ("next", None)
    for number in range(3):
        await in_feed(api, doc_id=str(number), idempotency_key=str(number))
    whole = [each["id"] for each in (await api.get("events_read"))["events"]]
    assert len(whole) == 3
    after, seen = first["data"]["events"]["cursor"], []
    while len(seen) < len(whole):
        answers = await api.stream(SUBSCRIPTION, after=after)
        # an end without `complete` is a lost connection
        assert {kind for kind, _ in answers} == {"next"}
        for _, answer in answers[:2]:
            seen.append(answer["data"]["events"]["event"]["id"])
            after = answer["data"]["events"]["cursor"]
    assert seen == whole
    # nothing more yet: the position all the same, so that the client's count of tries begins again
    end = {"cursor": after, "gap": False, "event": None}
    assert await api.stream(SUBSCRIPTION, after=after) == [("next", {"data": {"events": end}})]


async def test_what_nothing_fits_moves_the_position(api: Api) -> None:
    """A cursor that stood still would be of what is kept no more one day."""
    await in_feed(api)
    [(_, answer)] = await api.stream(SUBSCRIPTION, after="earliest", jobId="another")
    found = answer["data"]["events"]
    assert (found["event"], found["gap"]) == (None, False)
    assert found["cursor"] == (await api.get("events_read"))["next"]


async def test_a_position_that_is_gone_is_a_gap(api: Api) -> None:
    """With the earliest that holds, from where the client goes on by itself."""
    await in_feed(api)
    [(_, answer)] = await api.stream(SUBSCRIPTION, after="c3RyYW5nZXI6MQ==")
    found = answer["data"]["events"]
    assert (found["event"], found["gap"]) == (None, True)
    assert (await api.stream(SUBSCRIPTION, after=found["cursor"]))[0][1]["data"]["events"]["event"] is not None


@pytest.mark.parametrize(
    ("given", "code"),
    [('tenant_id: "tenant_b"', "TENANT_FORBIDDEN"), ('after: "x"', "CURSOR_INVALID"), ("limit: 101", "LIMIT_INVALID")],
)
async def test_a_refused_subscription_is_over(api: Api, given: str, code: str) -> None:
    [(kind, answer), last] = await api.stream(f"subscription {{events({given}) {{cursor}}}}")
    assert (kind, codes(answer), last) == ("next", [(code, ["events"])], ("complete", None))


async def test_without_a_feed_there_is_no_subscription(world: World) -> None:
    fed = of(world)
    off = Fed(replace(fed.world, context=replace(fed.world.context, feed=None)), fed.queue, fed.feed)
    [(_, answer), _] = await Api(off).stream(SUBSCRIPTION)
    assert codes(answer) == [("EVENTS_OFF", ["events"])]


@pytest.fixture
def full(api: Api) -> Iterator[None]:
    with ExitStack() as stack:
        for _ in range(MAX_FOLLOWERS):
            stack.enter_context(api.context.waiters.hold("tenant_a", follower=True))
        yield


@pytest.mark.usefixtures("full")
async def test_past_the_room_nothing_is_held(api: Api) -> None:
    """Among all who wait for events. There is no message, so that the client's pauses grow; what is there comes."""
    [(_, answer)] = await api.stream(SUBSCRIPTION)
    assert await api.stream(SUBSCRIPTION, after=answer["data"]["events"]["cursor"]) == []
    await in_feed(api)
    assert await api.stream(SUBSCRIPTION, after="earliest")


async def test_a_subscription_is_held(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """Among those who wait for the tenant's feed."""
    held = []

    async def follow(*_given: Any, **named: Any) -> Any:
        held.append((api.context.waiters.has_room("tenant_a", follower=True), named["wait_s"]))
        raise LedgerUnavailable("enough")

    [(_, answer)] = await api.stream(SUBSCRIPTION)
    monkeypatch.setattr(events_http, "follow_feed", follow)
    with ExitStack() as stack:
        for _ in range(MAX_FOLLOWERS - 1):
            stack.enter_context(api.context.waiters.hold("tenant_a", follower=True))
        after = answer["data"]["events"]["cursor"]
        await refusal(api, {"query": SUBSCRIPTION, "variables": {"after": after}}, "text/event-stream")
    assert held == [(False, events_http.HOLD_S)]


async def test_the_schema_is_served(api: Api) -> None:
    answer = await api.call("graphql_schema", func.HttpRequest("GET", "/v1/schema.graphql", body=b""))
    assert (answer.status_code, answer.get_body().decode()) == (200, graphql_http.schema())
