"""Incidents on the real stack, by the commands of docs/guides/failures.md."""

from __future__ import annotations

import itertools
import shlex
from typing import Any

from shared.core.jobs.routing import lane_of
from tests.document_commands import block
from tests.lucius_client.cli.command import run_main
from tests.running_stack import ROOT, RunningStack
from tests.stack.job_requests import submit
from tests.stack.scripted_service import LANE, ScriptedService
from tests.waiting import wait_until


def test_the_commands_of_incidents(stack: RunningStack, service: ScriptedService) -> None:
    """A service receives three jobs and does not reply: each is an incident, which is retried, resolved or dismissed.

    The test has its own tenant, on the lane that the service receives from, instead of `acme`.
    """
    tenant = next(name for name in (f"incidents-{number}" for number in itertools.count()) if lane_of(name, 16) == LANE)
    jobs = [submit(stack, tenant_id=tenant, request_type="ONCE_EACH", doc_id=str(number)) for number in range(3)]
    retried, resolved, dismissed = ids = [f"inc_{job_id}" for job_id in jobs]

    def listed(state: str = "OPEN") -> dict[str, dict[str, Any]]:
        found = stack.get("/v1/incidents", tenant_id=tenant, state=state)["incidents"]
        return {str(each["incidentId"]): each for each in found}

    def shell(name: str) -> str:
        commands = block(ROOT / "docs" / "guides" / "failures.md", f"incidents {name}").replace("acme", tenant)
        for placeholder, each in zip(("INCIDENT_ID", "OTHER_INCIDENT", "THIRD_INCIDENT"), ids, strict=True):
            commands = commands.replace(placeholder, each)
        output = ""
        for line in commands.splitlines():
            completed = run_main(*shlex.split(line)[1:], api=stack.api)
            assert completed.returncode == 0, line + completed.stderr
            output += completed.stdout
        return output

    def silently() -> bool:
        service.directives()
        return set(listed()) == set(ids)

    wait_until(silently, "they are no incidents")
    assert {each["code"] for each in listed().values()} == {"ATTEMPTS_EXHAUSTED"}
    # callers of all tenants find them in the one list
    assert set(ids) <= {str(each["incidentId"]) for each in stack.get("/v1/incidents", state="OPEN")["incidents"]}
    looked = shell("look")
    assert all(each in looked for each in ids)
    assert (f"JOB {jobs[0]}" in looked, "OPENED" in looked) == (True, True)
    acted = shell("act")
    assert all(state in acted for state in ("RETRIED", "RESOLVED", "DISMISSED"))
    # the job that took one up may have become another
    assert not set(listed()) & set(ids)
    states = listed("RETRIED,RESOLVED,DISMISSED")
    assert [states[each]["state"] for each in (retried, resolved, dismissed)] == ["RETRIED", "RESOLVED", "DISMISSED"]
    assert stack.get(f"/v1/jobs/{states[retried]['retried_by']}")["redrive_of"] == jobs[0]
    assert run_main("job", "dismiss", jobs[1], "--reason", "sent again", api=stack.api).returncode == 0
    letters = [each["jobId"] for each in stack.get("/v1/deadletters", tenant_id=tenant)["deadletters"]]
    assert not set(letters) & set(jobs)
