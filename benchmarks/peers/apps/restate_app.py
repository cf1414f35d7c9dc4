"""A Restate service of the Python SDK: a handler with three durable steps (`ctx.run_typed`).

Served by Hypercorn with the production settings of https://docs.restate.dev/develop/python/serving, a worker a core.
"""

from __future__ import annotations

from typing import Any

import restate

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


app = restate.app(services=[jobs])
