"""A Restate service of the Python SDK: a handler with three durable steps (`ctx.run_typed`).

`run_external` sends each step to the worker of `BENCH_WORKER`, whose replies resolve two awakeables. Hypercorn serves
the service with the production settings of https://docs.restate.dev/develop/python/serving, with one worker per core.
"""

from __future__ import annotations

import os
from typing import Any

import httpx
import restate

from benchmarks.peers.apps.worker import STEPS

_WORKER, _INGRESS = os.environ.get("BENCH_WORKER", ""), os.environ.get("BENCH_INGRESS", "")
client = httpx.AsyncClient(timeout=120, trust_env=False)
jobs = restate.Service("jobs")


async def ocr(number: int) -> dict[str, Any]:
    return {"text": f"document {number}"}


async def embedding(read: dict[str, Any]) -> dict[str, Any]:
    return {"vectors": len(read["text"])}


async def sis(embedded: dict[str, Any]) -> dict[str, Any]:
    return {"answers": [embedded["vectors"]]}


@jobs.handler()
async def run(ctx: restate.Context, number: int) -> dict[str, Any]:
    read = await ctx.run_typed("ocr", ocr, number=number)
    embedded = await ctx.run_typed("embedding", embedding, read=read)
    return await ctx.run_typed("sis", sis, embedded=embedded)


async def send(step: str, ack: str, result: str) -> None:
    urls = {name: f"{_INGRESS}/restate/awakeables/{id_}/resolve" for name, id_ in (("ack", ack), ("result", result))}
    (await client.post(_WORKER, json={"step": step, **urls})).raise_for_status()


@jobs.handler()
async def run_external(ctx: restate.Context, number: int) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for step in STEPS:
        (ack_id, ack), (result_id, ended) = ctx.awakeable(type_hint=dict), ctx.awakeable(type_hint=dict)
        await ctx.run_typed(step, send, step=step, ack=ack_id, result=result_id)
        await ack
        result = await ended
    return result


app = restate.app(services=[jobs])
