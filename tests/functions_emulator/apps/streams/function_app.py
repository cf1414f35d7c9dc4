"""HTTP functions that stream, with requests and responses of the FastAPI extension."""

import asyncio
import logging
import time

import azure.functions as func
from azurefunctions.extensions.http.fastapi import JSONResponse, Request, StreamingResponse

app = func.FunctionApp(http_auth_level=func.AuthLevel.ANONYMOUS)

asked_on = asyncio.Event()


@app.route("numbers/{count:int}", methods=[func.HttpMethod.GET])
async def numbers(req: Request) -> StreamingResponse:
    """Sends each number but the first only after a request to /next."""

    async def lines():
        for number in range(int(req.path_params["count"])):
            yield f"data: {number}\n\n"
            await asked_on.wait()
            asked_on.clear()

    return StreamingResponse(lines(), media_type="text/event-stream", headers={"X-Stream": "yes"})


@app.route("next", methods=[func.HttpMethod.POST])
async def go_on(req: Request) -> str:
    asked_on.set()
    return "ok"


@app.route("sizes", methods=[func.HttpMethod.POST])
async def sizes(req: Request) -> JSONResponse:
    """Counts a body of any length while it arrives."""
    total, largest = 0, 0
    async for chunk in req.stream():
        total, largest = total + len(chunk), max(largest, len(chunk))
    logging.getLogger("streams").info("counted %d", total)
    return JSONResponse({"total": total, "largest": largest, "query": dict(req.query_params)}, status_code=201)


@app.route("sync")
def sync_stream(req: Request, context: func.Context) -> StreamingResponse:
    def pieces():
        yield "slow "
        time.sleep(0.1)
        yield context.function_name

    return StreamingResponse(pieces(), media_type="text/plain")


@app.route("breaks")
async def breaks(req: Request) -> StreamingResponse:
    def pieces():
        yield "begun"
        raise RuntimeError("secret detail")

    return StreamingResponse(pieces())


@app.route("raises")
async def raises(req: Request) -> str:
    raise RuntimeError("secret detail")


@app.route("classic")
async def classic(req: func.HttpRequest) -> func.HttpResponse:
    """Returns the extension's type: the worker accepts only these once it is imported."""
    return func.HttpResponse("never")
