"""The collector as a program: receives OTLP/HTTP, serves pages and JSON."""

from __future__ import annotations

import argparse
import asyncio
import sys
from dataclasses import asdict
from typing import Any

from aiohttp import web

from emulator.serving import serve
from emulator.traces import pages
from emulator.traces.otlp import NotOtlp, read_points, read_spans
from emulator.traces.trace_buffer import Trace, TraceBuffer
from emulator.traces.waterfall import rows

_PROTOBUF = "application/x-protobuf"
#: maximum size of an export, decompressed
MAX_BODY_BYTES = 16 * 1024 * 1024
_PAGE = 100


def run(args: argparse.Namespace) -> int:
    """Serves until a signal. Returns the exit code."""
    try:
        return asyncio.run(serve(application(TraceBuffer(args.keep)), args.port, shutdown_timeout_s=1.0))
    except OSError as error:
        print(f"traces: cannot listen on port {args.port}: {error.strerror}", file=sys.stderr)
        return 1


def application(buffer: TraceBuffer) -> web.Application:
    """Returns the app, which receives `POST /v1/traces`, `/v1/metrics` and `/v1/logs`, and serves the pages `/`,
    `/traces/{id}` and `/metrics`. The app drops logs.

    `/api/traces`, `/api/traces/{id}` and `/api/metrics` return the data of the pages as JSON.
    """

    async def take_traces(request: web.Request) -> web.Response:
        buffer.put_spans(read_spans(await _body(request)))
        return web.Response(content_type=_PROTOBUF)

    async def take_metrics(request: web.Request) -> web.Response:
        buffer.put_points(read_points(await _body(request)))
        return web.Response(content_type=_PROTOBUF)

    async def take_logs(request: web.Request) -> web.Response:
        await _body(request)  # logs are accepted and dropped
        return web.Response(content_type=_PROTOBUF)

    async def overview(request: web.Request) -> web.Response:
        prefix, all_ = request.query.get("job", "").strip(), "all" in request.query
        return _html(pages.overview(buffer.find(prefix, _PAGE, all_=all_), prefix, all_=all_))

    async def detail(request: web.Request) -> web.Response:
        return _html(pages.detail(requested_trace(request)))

    async def metrics(request: web.Request) -> web.Response:
        return _html(pages.metrics(buffer.points))

    async def api_traces(request: web.Request) -> web.Response:
        traces = buffer.find(request.query.get("job", "").strip(), _PAGE, all_="all" in request.query)
        return web.json_response({"traces": [_summary(trace) for trace in traces]})

    async def api_trace(request: web.Request) -> web.Response:
        trace = requested_trace(request)
        spans = [{**asdict(row.span), "depth": row.depth} for row in rows(trace)]
        return web.json_response({**_summary(trace), "spans": spans})

    async def api_metrics(request: web.Request) -> web.Response:
        return web.json_response({"metrics": [asdict(point) for point in buffer.points]})

    def requested_trace(request: web.Request) -> Trace:
        trace = buffer.trace(request.match_info["trace_id"].lower())
        if trace is None:
            raise web.HTTPNotFound(text="trace not found; this process keeps a limited number of traces in memory\n")
        return trace

    app = web.Application(client_max_size=MAX_BODY_BYTES, middlewares=[_refuse_not_otlp])
    app.router.add_post("/v1/traces", take_traces)
    app.router.add_post("/v1/metrics", take_metrics)
    app.router.add_post("/v1/logs", take_logs)
    app.router.add_get("/", overview)
    app.router.add_get("/traces/{trace_id}", detail)
    app.router.add_get("/metrics", metrics)
    app.router.add_get("/api/traces", api_traces)
    app.router.add_get("/api/traces/{trace_id}", api_trace)
    app.router.add_get("/api/metrics", api_metrics)
    return app


@web.middleware
async def _refuse_not_otlp(request: web.Request, handler: Any) -> web.StreamResponse:
    try:
        response: web.StreamResponse = await handler(request)
    except NotOtlp as error:
        return web.Response(status=400, text=f"not an OTLP message: {error}\n")
    return response


async def _body(request: web.Request) -> bytes:
    if request.content_type != _PROTOBUF:
        text = f"send {_PROTOBUF} (OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf)\n"
        raise web.HTTPUnsupportedMediaType(text=text)
    return await request.read()


def _summary(trace: Trace) -> dict[str, Any]:
    return {
        "trace_id": trace.trace_id,
        "name": trace.root.name,
        "jobs": trace.jobs,
        "spans_total": len(trace.spans),
        "start_ns": trace.start_ns,
        "end_ns": trace.end_ns,
        "failed": trace.failed,
    }


def _html(text: str) -> web.Response:
    headers = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'"}
    return web.Response(text=text, content_type="text/html", headers=headers)
