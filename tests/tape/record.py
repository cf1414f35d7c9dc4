"""`python -m tests.tape.record`: records the tape that CI plays, on a real stack whose service is scripted.

It takes half a minute, and must run again only if the tape gets other jobs.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests import running_stack
from tests.running_stack import RunningStack
from tests.stack.job_requests import status_is, submit, until
from tests.stack.scripted_service import ScriptedService

RECORDED = Path(__file__).parent / "recorded"


def record(stack: RunningStack, ocr: ScriptedService, embedding: ScriptedService) -> list[str]:
    """Ids of jobs that succeed, fail, are retried, paused, cancelled, redriven, and wait for another."""

    def work(service: ScriptedService, job_id: str, **result: Any) -> dict[str, Any]:
        directive = service.directive(job_id)
        service.reply(directive, "ACK")
        service.reply(directive, "RESULT", **result)
        return directive

    def control(job_id: str, action: str) -> dict[str, Any]:
        answer: dict[str, Any] = stack.http.post(f"/v1/jobs/{job_id}:{action}", json={"reason": "the tape"}).json()
        return answer

    jobs = [submit(stack), submit(stack), submit(stack)]
    whole, retried, failed = jobs
    busy = {"code": "BUSY", "message": "later"}
    work(ocr, whole)
    work(ocr, retried, status="FAILED_RETRY", error=busy, result_ref=None)
    work(ocr, failed, status="FAILED_FINAL", error={"code": "PDF_ENCRYPTED", "message": "locked"}, result_ref=None)
    work(ocr, retried, metrics={"pages": 2})
    until(stack, failed, status_is("FAILED_FINAL"))

    jobs.append(two := submit(stack, request_type="OCR_EMBEDDING"))
    again = work(ocr, two)
    second = embedding.directive(two)
    embedding.reply(second, "ACK")
    ocr.reply(again, "RESULT")  # a duplicate
    until(stack, two, lambda job: job["steps"][1]["status"] == "PROCESSING")
    embedding.reply(second, "RESULT")

    jobs += [paused := submit(stack), cancelled := submit(stack)]
    directives = [ocr.directive(each) for each in (paused, cancelled)]
    for directive in directives:
        ocr.reply(directive, "ACK")
    for job_id in (paused, cancelled):
        until(stack, job_id, status_is("IN_PROGRESS"))
    control(paused, "pause")
    control(cancelled, "cancel")
    ocr.reply(directives[0], "RESULT", status="FAILED_RETRY", error=busy, result_ref=None)
    ocr.reply(directives[1], "RESULT")
    until(stack, paused, lambda job: job["status"] == "PAUSED")
    control(paused, "resume")
    work(ocr, paused)

    jobs.append(redriven := control(failed, "redrive")["jobId"])
    jobs.append(waiting := submit(stack, dependencies=[redriven]))
    work(ocr, redriven)
    work(ocr, waiting)
    for job_id in jobs:
        until(stack, job_id, status_is("SUCCEEDED", "FAILED_FINAL", "CANCELLED"))
    return jobs


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        stack = running_stack.start(Path(folder), "--without-services")
        try:
            with (
                ScriptedService(stack.bus_connection) as ocr,
                ScriptedService(stack.bus_connection, "embedding") as embedding,
            ):
                audits = [stack.get(f"/v1/jobs/{job_id}/audit") for job_id in sorted(record(stack, ocr, embedding))]
        finally:
            stack.stop()
    RECORDED.mkdir(exist_ok=True)
    jobs = [
        {
            "job_id": each["job"]["job_id"],
            **{name: each[name] for name in ("format", "job", "steps")},
            "archived": False,
        }
        for each in audits
    ]
    events = [event for each in audits for event in each["events"]]
    for name, rows in (("jobs.jsonl", jobs), ("history.jsonl", events)):
        text = "".join(f"{json.dumps(row, ensure_ascii=False, separators=(',', ':'))}\n" for row in rows)
        (RECORDED / name).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
