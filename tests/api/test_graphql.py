"""GraphQL over HTTP: callers, and the client `graphql-sse`, which follows a job over many responses (R83)."""

from __future__ import annotations

import json
import re
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import sync_playwright

from tests import machine
from tests.api.live import Live
from tests.api.test_streams import submitted, waiting
from tests.lucius_client.cli.test_docs import block
from tests.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
CLIENT = ROOT / "node_modules" / "graphql-sse" / "lib"
DEADLINE_S = 60
#: content of a page around the block of docs/reference/graphql.md; each output line is an object
AROUND = """
const { token, jobId } = GIVEN;
const write = (line) => console.log(JSON.stringify(line));
const show = (event) => { write({ event }); if (/completed|failed|canceled/.test(event.type)) stop(); };
const over = (reason) => write({ over: String(reason) });
const real = fetch;
globalThis.fetch = async (...request) => {
  const answer = await real(...request);
  write({ answer: answer.status });
  return answer;
};
"""

Lines = Callable[[], list[dict[str, Any]]]


def program(api: Live, token: str, job_id: str) -> str:
    """The documented one."""
    imports, rest = block("reference/graphql.md", "subscription", "js", api.stack).split("\n", 1)
    return imports + AROUND.replace("GIVEN", json.dumps({"token": token, "jobId": job_id})) + rest


@pytest.fixture(scope="module")
def tenant() -> str:
    """A tenant of these tests alone."""
    return f"graphql-{uuid.uuid4()}"


@pytest.fixture(scope="module")
def own(api: Live, tenant: str) -> httpx.Client:
    return api.client(tenant=tenant)


class InNode:
    """A program, and its output."""

    def __init__(self, folder: Path, text: str) -> None:
        self._output = folder / "output"
        # modules are found from the folder in which such a text is run
        command = ["node", "--input-type=module", "--eval", text]
        with self._output.open("w") as output:
            self._process = subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=subprocess.STDOUT)

    def lines(self) -> list[dict[str, Any]]:
        # the last one may be half written
        return [json.loads(line) for line in self._output.read_text().split("\n")[:-1]]

    def end(self) -> int:
        return self._process.wait(DEADLINE_S)

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


@pytest.fixture
def programs() -> Iterator[list[InNode]]:
    started: list[InNode] = []
    yield started
    for each in started:
        each.close()


def follows(own: httpx.Client, tenant: str, job_id: str, lines: Lines, quiet_s: float = 0) -> None:
    """Through at least two answers, of which none is the last: no event is missing and none comes twice."""
    wait_until(lambda: any("event" in line for line in lines()), "no event came", deadline_s=DEADLINE_S)
    time.sleep(quiet_s)
    # events of the same tenant's feed, so that the position moves past events that do not match
    submitted(own, tenant)
    own.post(f"/v1/jobs/{job_id}:cancel").raise_for_status()
    wait_until(lambda: any("over" in line for line in lines()), "it is not over", deadline_s=DEADLINE_S)
    whole = own.get("/v1/events", params={"jobId": job_id}).json()["events"]
    assert [line["event"] for line in lines() if "event" in line] == [
        {name: event[name] for name in ("id", "type", "data")} for event in whole
    ]
    assert whole[-1]["type"] == "job.canceled"
    assert {line["answer"] for line in lines() if "answer" in line} == {200}
    kinds = "".join(name[0] for line in lines() for name in line)
    assert re.fullmatch("a+e[ae]*a+e+o", kinds), kinds


@pytest.mark.parametrize(
    "quiet_s",
    [pytest.param(0, id="at once"), pytest.param(45, id="after quiet answers", marks=pytest.mark.long)],
)
def test_the_client_follows_a_job_to_its_end(
    api: Live, own: httpx.Client, tenant: str, tmp_path: Path, programs: list[InNode], quiet_s: float
) -> None:
    """The client as npm has it, in Node; also where nothing happens for longer than an answer is held."""
    job_id = waiting(own, tenant)
    programs.append(started := InNode(tmp_path, program(api, api.token(tenant=tenant), job_id)))
    follows(own, tenant, job_id, started.lines, quiet_s)
    assert started.end() == 0


@pytest.mark.needs("browser")
def test_the_client_follows_a_job_in_a_browser(api: Live, own: httpx.Client, tenant: str) -> None:
    """There an answer's end comes together with its messages."""
    job_id = waiting(own, tenant)
    text = program(api, api.token(tenant=tenant), job_id)
    modules = {"imports": {"graphql-sse": "/graphql-sse/client.mjs"}}
    html = f'<script type="importmap">{json.dumps(modules)}</script><script type="module">{text}</script>'
    found: list[dict[str, Any]] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=machine.path_of("browser"), timeout=DEADLINE_S * 1000)
        page = browser.new_page()
        page.set_default_timeout(DEADLINE_S * 1000)
        # a browser prints its own lines there
        page.on("console", lambda line: found.append(json.loads(line.text)) if line.text[0] == "{" else None)
        # at the same address, so that the test is about the client and not about CORS
        page.route("**/own-page", lambda route: route.fulfill(body=html, content_type="text/html"))
        page.route(
            "**/graphql-sse/*.mjs", lambda route: route.fulfill(path=CLIENT / route.request.url.rpartition("/")[2])
        )
        page.goto(f"{api.stack.api}/own-page")

        def lines() -> list[dict[str, Any]]:
            # the output is read while the page gets a request
            page.evaluate("0")
            return found

        follows(own, tenant, job_id, lines)
        browser.close()


def test_the_client_ends_where_it_is_refused(api: Live, tmp_path: Path, programs: list[InNode]) -> None:
    """As documented: by itself it repeats the request after every status."""
    programs.append(started := InNode(tmp_path, program(api, "no.token.this", "job_0")))
    assert started.end() == 0
    assert started.lines() == [{"answer": 401}, {"over": "Error: refused: 401"}]


def test_a_document_is_taken_by_post_alone(api: Live, own: httpx.Client) -> None:
    query = {"query": "{jobs {next}}"}
    assert own.post("/v1/graphql", json=query).json() == {"data": {"jobs": {"next": None}}}
    assert own.get("/v1/graphql", params=query).status_code == 404
    assert own.put("/v1/graphql", json=query).status_code == 404
    assert own.options("/v1/graphql").headers["Allow"] == "OPTIONS, POST"
    batch = own.post("/v1/graphql", json=[query, query])
    assert (batch.status_code, batch.json()["code"]) == (400, "QUERY_INVALID")
    assert api.stack.http.post("/v1/graphql", json=query).status_code == 401
    reader = api.client(tenant="another", scope="orch:operate")
    assert reader.post("/v1/graphql", json=query).json()["code"] == "SCOPE_MISSING"


def test_another_tenants_job_is_null(api: Live, own: httpx.Client, tenant: str) -> None:
    job_id = submitted(own, tenant)
    query = {"query": "query ($id: String!) {job(id: $id) {jobId status}}", "variables": {"id": job_id}}
    assert own.post("/v1/graphql", json=query).json() == {"data": {"job": {"jobId": job_id, "status": "QUEUED"}}}
    other = api.client(tenant=f"other-{uuid.uuid4()}").post("/v1/graphql", json=query).json()
    assert other["data"] == {"job": None}
    assert other["errors"][0]["extensions"]["code"] == "JOB_NOT_FOUND"


def test_a_limit_has_one_bound(own: httpx.Client) -> None:
    """That of GraphQL, below and above."""
    answer = own.post("/v1/graphql", json={"query": "{a: jobs(limit: 0) {next} b: jobs(limit: 101) {next}}"}).json()
    allowed = "limit must be a whole number from 1 to 100"
    assert {each["message"] for each in answer["errors"]} == {f"{allowed}, not 0", f"{allowed}, not 101"}


def test_the_page_names_each_argument() -> None:
    """Of every field, in the schema's order."""
    schema = (ROOT / "docs" / "schema.graphql").read_text(encoding="utf-8").partition("type Subscription")[0]
    fields = re.findall(r"^  (\w+)\(\n(.*?)^  \)", schema, re.DOTALL | re.MULTILINE)
    given = {name: ", ".join(re.findall(r"^    (\w+):", body, re.MULTILINE)) for name, body in fields}
    page = (ROOT / "docs" / "reference" / "graphql.md").read_text(encoding="utf-8")
    assert dict(re.findall(r"^\| `(\w+)\((.*)\)` \| `GET ", page, re.MULTILINE)) == given


def test_the_schema_is_open(api: Live) -> None:
    answer = api.stack.http.get("/v1/schema.graphql")
    assert (answer.status_code, answer.text) == (200, (ROOT / "docs" / "schema.graphql").read_text(encoding="utf-8"))
    assert answer.headers["Content-Type"].startswith("text/plain")
