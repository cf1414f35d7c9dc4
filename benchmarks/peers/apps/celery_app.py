"""Celery with Redis as broker and result backend. A task of a killed worker runs again.

`acks_late` and `reject_on_worker_lost` are set as in https://docs.celeryq.dev/en/stable/userguide/tasks.html. The pool
is the default, one process per core. `python -m benchmarks.peers.apps.celery_app` is the caller. The caller reads `JOBS
AT_ONCE` from stdin, runs that number of jobs, and writes the seconds of each as a line of JSON.

A job is a chain of three tasks. With the argument `external`, a job is a series of tasks. `begin` sends the first step
to the worker, and `reply` processes each reply.
"""

from __future__ import annotations

import json
import os
import sys
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import redis
from celery import Celery, chain

from benchmarks.peers.apps.worker import STEPS

_URL = os.environ["BENCH_REDIS"]
app = Celery("bench", broker=f"{_URL}/0", backend=f"{_URL}/1")
#: data of external jobs besides tasks: the worker's list of steps, the replies of each step, the ends
store = redis.Redis.from_url(f"{_URL}/2")
app.conf.update(task_acks_late=True, task_reject_on_worker_lost=True, broker_connection_retry_on_startup=True)


@app.task
def ocr(number: int) -> dict[str, Any]:
    return {"text": f"document {number}"}


@app.task
def embedding(read: dict[str, Any]) -> dict[str, Any]:
    return {"vectors": len(read["text"])}


@app.task
def sis(embedded: dict[str, Any]) -> dict[str, Any]:
    return {"answers": [embedded["vectors"]]}


@app.task(ignore_result=True)
def begin(job: str) -> None:
    _send(job, STEPS[0])


@app.task(ignore_result=True)
def reply(job: str, step: str, kind: str, result: dict[str, Any] | None) -> None:
    """Continues the job when the step has both replies."""
    key = f"{job} {step}"
    with store.pipeline() as commands:
        commands.hset(key, kind, json.dumps(result))
        commands.hgetall(key)
        replies = commands.execute()[1]
    if len(replies) == 2:
        if step == STEPS[-1]:
            store.rpush(job, replies[b"RESULT"])
        else:
            _send(job, STEPS[STEPS.index(step) + 1])


def _send(job: str, step: str) -> None:
    store.rpush("steps", json.dumps({"job": job, "step": step}))


def _run_external(_: int) -> float:
    job, began = uuid.uuid4().hex, time.monotonic()
    begin.delay(job)
    if store.blpop(job, timeout=120) is None:
        raise TimeoutError(job)
    return time.monotonic() - began


def _run(number: int) -> float:
    began = time.monotonic()
    chain(ocr.s(number), embedding.s(), sis.s()).apply_async().get(timeout=120)
    return time.monotonic() - began


def _main() -> None:
    print("ready", flush=True)
    for line in sys.stdin:
        jobs, at_once = map(int, line.split())
        with ThreadPoolExecutor(at_once) as callers:
            run = _run_external if sys.argv[1:] == ["external"] else _run
            print(json.dumps(list(callers.map(run, range(jobs)))), flush=True)


if __name__ == "__main__":
    # import the module by its name: a task of `__main__` would have another name than the worker's
    from benchmarks.peers.apps import celery_app

    celery_app._main()
