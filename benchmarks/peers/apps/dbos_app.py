"""DBOS in a FastAPI app, as in its quickstart (https://docs.dbos.dev/python/programming-guide).

`python -m benchmarks.peers.apps.dbos_app PORT DATABASE_URL [WORKER_URL]`. A POST to `/jobs/N` runs a workflow and
responds when the workflow ends. With WORKER_URL each step is sent to that worker, whose replies are sent to the
workflow (`DBOS.send`).
"""

from __future__ import annotations

import sys
from typing import Any

import httpx
import uvicorn
from dbos import DBOS
from fastapi import FastAPI

from benchmarks.peers.apps.worker import STEPS

ACK_S, RESULT_S = 30, 900
api, client = FastAPI(), httpx.AsyncClient(timeout=120, trust_env=False)
port, url, worker = [*sys.argv[1:], ""][:3]


@DBOS.step()
async def ocr(number: int) -> dict[str, Any]:
    return {"text": f"document {number}"}


@DBOS.step()
async def embedding(read: dict[str, Any]) -> dict[str, Any]:
    return {"vectors": len(read["text"])}


@DBOS.step()
async def sis(embedded: dict[str, Any]) -> dict[str, Any]:
    return {"answers": [embedded["vectors"]]}


@DBOS.workflow()
async def job(number: int) -> dict[str, Any]:
    return await sis(await embedding(await ocr(number)))


@DBOS.step()
async def send(workflow: str, step: str) -> None:
    replies = f"http://127.0.0.1:{port}/replies/{workflow}/{step}"
    body = {"step": step, "ack": f"{replies}-ack", "result": f"{replies}-result"}
    (await client.post(worker, json=body)).raise_for_status()


@DBOS.workflow()
async def external_job(number: int) -> dict[str, Any]:
    workflow, result = DBOS.workflow_id, None
    assert workflow is not None
    for step in STEPS:
        await send(workflow, step)
        for topic, seconds in ((f"{step}-ack", ACK_S), (f"{step}-result", RESULT_S)):
            if (result := await DBOS.recv_async(topic, timeout_seconds=seconds)) is None:
                raise TimeoutError(topic)
    assert result is not None
    return result


@api.post("/replies/{workflow}/{topic}")
async def reply(workflow: str, topic: str, body: dict[str, Any]) -> None:
    await DBOS.send_async(workflow, body, topic)


@api.post("/jobs/{number}")
async def run(number: int) -> dict[str, Any]:
    return await (external_job(number) if worker else job(number))


if __name__ == "__main__":
    DBOS(config={"name": "bench", "system_database_url": url, "log_level": "WARNING"})
    DBOS.launch()
    uvicorn.run(api, host="127.0.0.1", port=int(port), log_level="warning", access_log=False)
