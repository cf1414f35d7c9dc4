"""Celery with Redis as broker and result backend; a task that was taken by a killed worker is not lost.

`acks_late` and `reject_on_worker_lost` as in https://docs.celeryq.dev/en/stable/userguide/tasks.html; the pool is the
default, a process a core. `python -m benchmarks.peers.apps.celery_app` is the caller: it reads `JOBS AT_ONCE` from
stdin, runs so many chains of three tasks, and writes the seconds of each as a line of JSON.
"""

from __future__ import annotations

import json
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from celery import Celery, chain

_URL = os.environ["BENCH_REDIS"]
app = Celery("bench", broker=f"{_URL}/0", backend=f"{_URL}/1")
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


def _run(number: int) -> float:
    began = time.monotonic()
    chain(ocr.s(number), embedding.s(), sis.s()).apply_async().get(timeout=120)
    return time.monotonic() - began


def _main() -> None:
    print("ready", flush=True)
    for line in sys.stdin:
        jobs, at_once = map(int, line.split())
        with ThreadPoolExecutor(at_once) as callers:
            print(json.dumps(list(callers.map(_run, range(jobs)))), flush=True)


if __name__ == "__main__":
    # the module by its name: a task of `__main__` has another name than the worker's
    from benchmarks.peers.apps import celery_app

    celery_app._main()
