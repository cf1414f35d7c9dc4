"""The section on breakers of docs/guides/quotas.md, with a service that fails and is repaired."""

from __future__ import annotations

import shlex
from typing import Any

from tests.lucius_client.cli.command import stdout_of
from tests.lucius_client.cli.test_docs import block
from tests.running_stack import RunningStack
from tests.stack.job_requests import job, status_is, submit, until
from tests.stack.scripted_service import TENANT, ScriptedService
from tests.waiting import wait_until

ERROR = {"code": "BUSY", "message": "later"}


def test_the_commands_of_breakers(stack: RunningStack, service: ScriptedService) -> None:
    """Two failed jobs open it; the next one waits, is admitted as a probe, and its end closes the breaker.

    The tenant is the scripted service's instead of `acme`. The test waits for a cool-down of twenty seconds.
    """

    def shell(name: str, job_id: str = "") -> str:
        commands = block("guides/quotas.md", f"governance {name}", "sh", stack).replace("acme", TENANT)
        # shorter than on the page
        commands = commands.replace("cooldown_s=60", "cooldown_s=20")
        lines = commands.replace("JOB_ID", job_id).splitlines()
        return "".join(stdout_of(stack, *shlex.split(line)[1:]) for line in lines)

    def breaker() -> dict[str, Any]:
        found: dict[str, Any] = stack.get("/v1/quotas", tenant=TENANT, type="OCR")["quotas"][0]["breaker"]
        return found

    try:
        assert "breaker=(cooldown_s=20 failure_rate=0.5 min_calls=2)" in shell("breaker")
        assert breaker()["state"] == "CLOSED"
        for _ in range(2):
            job_id = submit(stack)
            for _ in range(3):
                service.reply(service.directive(job_id), "RESULT", status="FAILED_RETRY", error=ERROR, result_ref=None)
            until(stack, job_id, status_is("FAILED_FINAL"))
        wait_until(lambda: breaker()["state"] != "CLOSED", "two bad ends did not open it")
        waiting = submit(stack)
        assert job(stack, waiting)["status"] == "THROTTLED"
        assert f"the breaker of type OCR of tenant {TENANT}, which is open until" in shell("broken", waiting)
        service.reply(service.directive(waiting), "RESULT")
        until(stack, waiting, status_is("SUCCEEDED"))
        wait_until(lambda: breaker()["state"] == "CLOSED", "a good end did not close it")
        log = shell("healed")
        assert [word for word in log.split() if word.startswith("BREAKER_")] == [
            "BREAKER_OPENED",
            "BREAKER_HALF_OPEN",
            "BREAKER_CLOSED",
        ]
        assert "changed, the limits stay" in shell("reset")
        assert "min_tenants=2" in shell("breaker-of-all")
    finally:
        stdout_of(stack, "quota", "delete", "--tenant", TENANT, "--type", "OCR", "--reason", "the test is over")
