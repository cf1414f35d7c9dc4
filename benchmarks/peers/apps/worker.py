"""The external worker of DBOS, Restate and Celery: replies to each step with an ACK and immediately with the RESULT.

`python -m benchmarks.peers.apps.worker PORT` receives steps by HTTP: a POST with the step and two reply URLs.
Without PORT, it reads steps from the list `steps` of Celery's Redis and sends each reply as a task of `celery_app`.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

STEPS = ("ocr", "embedding", "sis")


def result_of(step: str) -> dict[str, Any]:
    return {"status": "SUCCEEDED", "result_ref": f"https://account.blob.core.windows.net/results/{step}.json"}


def _serve_http(port: int) -> None:
    import httpx
    import uvicorn
    from fastapi import FastAPI

    api, client, running = FastAPI(), httpx.AsyncClient(timeout=120, trust_env=False), set[asyncio.Task[None]]()

    async def reply(step: dict[str, Any]) -> None:
        (await client.post(step["ack"], json={"status": "ACK"})).raise_for_status()
        (await client.post(step["result"], json=result_of(step["step"]))).raise_for_status()

    @api.post("/", status_code=202)
    async def take(step: dict[str, Any]) -> None:
        task = asyncio.create_task(reply(step))
        running.add(task)
        task.add_done_callback(running.discard)

    uvicorn.run(api, host="127.0.0.1", port=port, log_level="warning", access_log=False)


def _serve_redis() -> None:
    from benchmarks.peers.apps import celery_app

    while True:
        _, body = celery_app.store.blpop("steps")
        step = json.loads(body)
        celery_app.reply.delay(step["job"], step["step"], "ACK", None)
        celery_app.reply.delay(step["job"], step["step"], "RESULT", result_of(step["step"]))


if __name__ == "__main__":
    if sys.argv[1:]:
        _serve_http(int(sys.argv[1]))
    else:
        _serve_redis()
