"""First characters of ids, omitted tenants, and completions of a shell."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from emulator.up.ports import find_free
from shared.apidocs.examples import by_model
from tests.lucius_client import samples
from tests.lucius_client.cli.command import run_main
from tests.lucius_client.stub_api import CannedResponse, serving

A, B = "job_aaaa1111", "job_aaaa2222"
BULK = by_model()["BulkPage"]["bulks"][0]
MISSING = CannedResponse(404, samples.problem(404, "JOB_NOT_FOUND", detail="job not found: job_aaaa"))
NO_TENANT = CannedResponse(400, samples.problem(400, "TENANT_REQUIRED"))


def page(**items: Any) -> CannedResponse:
    return CannedResponse(body={**items, "next": None, "partial": False})


@pytest.mark.parametrize(
    ("given", "listed", "code", "text"),
    [
        ("job_aaaa1", [A, B], 0, ""),
        ("job_aaaa", [A, B], 2, "job_aaaa is not unique: job_aaaa1111, job_aaaa2222"),
        ("job_bbbb", [A, B], 3, "(JOB_NOT_FOUND)"),
        ("job_aa", None, 3, "(JOB_NOT_FOUND)"),
        ("other", None, 3, "(JOB_NOT_FOUND)"),
        (f"job_{'a' * 32}", None, 3, "(JOB_NOT_FOUND)"),
    ],
)
def test_a_job_is_found_by_its_first_characters(given: str, listed: list[str] | None, code: int, text: str) -> None:
    """Four or more characters after `job_`, if they are unique; a complete id is not looked up."""
    jobs = [CannedResponse(body=samples.page(*listed))] if listed else []
    with serving(MISSING, *jobs, CannedResponse(body=samples.job("SUCCEEDED", A))) as api:
        done = run_main("job", "cancel", given, "-o", "ids", api=api.url)
    assert (done.returncode, done.stdout) == (code, "" if code else f"{A}\n")
    assert text in done.stderr
    paths = [request.path.partition("?")[0] for request in api.requests]
    assert paths == [f"/v1/jobs/{given}:cancel", *["/v1/jobs"] * bool(listed), *[f"/v1/jobs/{A}:cancel"] * (code == 0)]


@pytest.mark.parametrize(
    ("given", "code", "text"),
    [
        ("job_00000", 2, "is unique among the last 1,000 jobs only"),
        ("job_00000999", 0, ""),
        ("job_ffff", 3, "no match in the last 1,000 jobs"),
    ],
)
def test_many_jobs_need_more_characters(given: str, code: int, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The list is read to a bound, and an older job might begin the same."""
    monkeypatch.setattr("lucius_client.cli.ids.MAX_ITEMS", 2)
    ids = ["job_000009990", "job_111", "job_222"]
    with serving(MISSING, CannedResponse(body=samples.page(*ids)), CannedResponse(body=samples.job())) as api:
        done = run_main("job", "cancel", given, api=api.url)
    assert done.returncode == code
    assert text.replace("1,000", "2") in done.stderr


def test_a_bulk_is_shown_without_its_tenant() -> None:
    """It is looked up among the tenants of the last jobs and of quotas."""
    jobs = CannedResponse(body=samples.page("job_1"))
    quotas = page(quotas=[samples.quota()])
    with serving(NO_TENANT, jobs, quotas, page(bulks=[BULK]), CannedResponse(body=BULK)) as api:
        done = run_main("bulk", "show", BULK["bulkId"][:12], "--json", api=api.url)
    assert (done.returncode, json.loads(done.stdout)["bulkId"]) == (0, BULK["bulkId"]), done.stderr
    assert api.requests[-1].path == f"/v1/bulk/{BULK['bulkId']}?tenant=tenant_a"


def test_a_read_without_a_tenant_is_of_all() -> None:
    """Also if the API lists one tenant only; a sum over one tenant requires its name."""
    jobs, quotas = CannedResponse(body=samples.page("job_1")), page(quotas=[])
    with serving(NO_TENANT, jobs, quotas, page(bulks=[BULK])) as api:
        assert run_main("bulk", "list", "-o", "ids", api=api.url).stdout == f"{BULK['bulkId']}\n"
    with serving(NO_TENANT) as api:
        done = run_main("usage", api=api.url)
    assert (done.returncode, "name a tenant with --tenant or LUCIUS_TENANT" in done.stderr) == (3, True)


@pytest.mark.parametrize(
    ("words", "responses", "completed"),
    [
        ("lucius job show job_aaaa1", [CannedResponse(body=samples.page(A, B))], [A]),
        ("lucius job list --tenant ", [CannedResponse(body=samples.page(A)), page(quotas=[])], ["tenant_a"]),
        (
            "lucius submit x --protocol O",
            [page(protocols=[{"protocol_id": "ocr", "version": 1, "request_type": "OCR", "steps": [], "digest": "0"}])],
            ["OCR"],
        ),
        ("lucius job show job_", [CannedResponse(500, samples.problem(500, "INTERNAL"))], []),
        ("lucius job show job_", None, []),
    ],
)
def test_a_shell_completes_from_the_api(
    words: str, responses: list[CannedResponse] | None, completed: list[str], tmp_path: Path
) -> None:
    """Ids, tenants and protocols; without an API nothing, and no message."""
    position = str(len(words.split(" ")) - 1)
    environment = {"COMP_WORDS": words, "COMP_CWORD": position, "LUCIUS_CONFIG_DIR": str(tmp_path)}
    environment["_LUCIUS_COMPLETE"] = "complete_bash"
    with serving(*responses or ()) as api:
        url = api.url if responses else f"http://127.0.0.1:{find_free()}"
        done = run_main(api=url, **environment)
    assert (done.stdout.split(), done.stderr) == (completed, "")
