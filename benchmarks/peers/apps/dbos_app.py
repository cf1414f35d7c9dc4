"""DBOS in a FastAPI app, as in its quickstart (https://docs.dbos.dev/python/programming-guide).

`python -m benchmarks.peers.apps.dbos_app PORT DATABASE_URL`. A POST to `/jobs/N` runs a workflow, whose end it answers.
"""

from __future__ import annotations

import sys
from typing import Any

import uvicorn
from dbos import DBOS
from fastapi import FastAPI

api = FastAPI()


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


@api.post("/jobs/{number}")
async def run(number: int) -> dict[str, Any]:
    return await job(number)


if __name__ == "__main__":
    port, url = sys.argv[1:]
    DBOS(config={"name": "bench", "system_database_url": url, "log_level": "WARNING"})
    DBOS.launch()
    uvicorn.run(api, host="127.0.0.1", port=int(port), log_level="warning", access_log=False)
