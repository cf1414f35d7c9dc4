"""A queue that is merely deep, on the real stack: nothing is wrong, and the last job waits for all others."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from tests.running_stack import RunningStack
from tests.stack.job_requests import events, job, submit
from tests.stack.scripted_service import ScriptedService
from tests.waiting import wait_until

JOBS = 1000
WORK_S = 0.25


def has_ended(stack: RunningStack, job_id: str) -> bool:
    return job(stack, job_id)["status"] in ("SUCCEEDED", "FAILED_FINAL", "CANCELLED")


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_a_thousand_jobs_wait_for_one_slow_service(stack: RunningStack) -> None:
    """Their ACK time-out is 2 s and their lease 6 s; the queue takes minutes. All succeed by their first attempt."""
    stopped = threading.Event()

    def work() -> None:
        with ScriptedService(stack.bus_connection) as service:
            while not stopped.is_set():
                for directive in service.directives(1):
                    service.reply(directive, "ACK")
                    stopped.wait(WORK_S)
                    service.reply(directive, "RESULT")

    with ThreadPoolExecutor(9) as pool:
        jobs = list(pool.map(lambda number: submit(stack, request_type="HASTY", doc_id=f"deep-{number}"), range(JOBS)))
        worker = pool.submit(work)
        try:
            for job_id in jobs:
                wait_until(partial(has_ended, stack, job_id), f"{job_id} waits", deadline_s=1200)
        finally:
            stopped.set()
            worker.result()
    found = [job(stack, job_id) for job_id in jobs]
    assert {each["status"] for each in found} == {"SUCCEEDED"}
    assert {each["attempts_total"] for each in found} == {1}
    # a wait is no news
    assert max(len(events(stack, job_id)) for job_id in jobs[-10:]) <= 6
