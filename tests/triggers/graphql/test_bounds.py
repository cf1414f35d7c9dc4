"""GraphQL requests that are refused before anything is read: bodies, types and bounds of documents (R83)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.triggers.graphql.conftest import SUBSCRIPTION, Api, refusal
from triggers.graphql_execution import MAX_FIELDS, MAX_PAGES_OF_EVENTS, MAX_READS, MAX_SAME


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
        "{jobs(label: {" + "a:1 " * 3_900 + "}) {next}}",
        "query (" + " ".join(f"$v{n}: Int" for n in range(500)) + ") {jobs {next}}",
        "{jobs {next}}" + "#\n" * 2_000,
        "{" + " ".join(f"a{n}: events {{next}}" for n in range(MAX_PAGES_OF_EVENTS + 1)) + "}",
        "{...a events {next}} fragment a on Query {"
        + " ".join(f"a{n}: events {{next}}" for n in range(MAX_PAGES_OF_EVENTS))
        + "}",
        # fields that `validate` compares with each other, also unrequested ones
        "{jobs {next}} fragment a on Query {" + " ".join(f'a: job(id: "{n}") {{jobId}}' for n in range(80)) + "}",
        "{jobs {jobs {" + "a: jobId a: status a: attempt " * 60 + "}}}",
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
        "{" + " ".join(f"a{n}: events {{events {{data}}}}" for n in range(MAX_PAGES_OF_EVENTS)) + "}",
        "query a {events {next}} query b {events {next} c: events {next}} query d {events {next}}",
        "{jobs {...f0}} fragment f150 on JobPage {next} "
        + " ".join(f"fragment f{n} on JobPage {{...f{n + 1}}}" for n in range(150)),
        "{jobs {" + "... {" * 50 + "next" + "}" * 52,
        '{__type(name: "Job") {fields {name type {kind name ofType {name}}}}}',
        "query (" + " ".join(f"$v{n}: Int" for n in range(490)) + ") {jobs {next}}",
        "{jobs {next " + "@skip(if: true) " * 280 + "}}",
    ],
)
async def test_a_document_within_its_bounds_is_not(api: Api, document: str) -> None:
    assert (await api.post({"query": document})).status_code == 200


async def test_a_document_may_repeat_in_its_errors_only_a_little(api: Api) -> None:
    document = "{jobs(" + " ".join(f"a{n}: 1" for n in range(600)) + ") {next}}"
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
    """Several requests at once are refused; an unknown member is ignored."""
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
