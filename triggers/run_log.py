"""The log of a run, as text and as server-sent events, from a position (decision 62)."""

from __future__ import annotations

import codecs
import time
from dataclasses import dataclass

import azure.functions as func

from shared import telemetry
from shared.apidocs.problem_codes import ProblemCode
from shared.apidocs.route import NO_STORE, in_query
from shared.contracts.protocol import PACK
from shared.operations.jobs.read_history import read_job
from shared.operations.jobs.runs import Piece, Position, Run, read_log, run_of
from shared.operations.process.context import Context
from triggers.http.long_poll import history_tail, wait_of
from triggers.http.parameters import bad_cursor, job_id_of
from triggers.http.problems import RequestError
from triggers.http.responses import Content, respond
from triggers.http.routes import Request
from triggers.http.sse import HOLD_S, ended, position, stream

#: maximum bytes of a response; a reader requests the rest
MAX_TEXT, MAX_EVENTS = 4 * 2**20, 512 * 1024
#: seconds between two reads of a log that does not grow
_LOOK_S = 1.0
#: suffix of the last position of a stream
_END = ".end"
_SOURCE = "`after` from the header `Link`, or the `id` of an event of this log"

AFTER = in_query(
    "after",
    {"type": "string", "pattern": r"^[1-9][0-9]{0,9}\.(0|[1-9][0-9]{0,14})(\.end)?$"},
    "Position `ATTEMPT.BYTES`, from `Link` or the `id` of an event. The response starts after this position. Default: "
    "the beginning of the log.",
)


@dataclass(frozen=True)
class _Found:
    run: Run
    pieces: list[Piece]
    #: position to continue from
    after: Position
    #: `True` if the run has ended, and nothing follows
    complete: bool
    #: `True` if the process had room to delay the request
    room: bool = True

    @property
    def data(self) -> bytes:
        return b"".join(piece.data for piece in self.pieces)


async def log_text(request: Request) -> func.HttpResponse:
    """Returns the log as text, from a position on. The header `Link` leads to the next part, unless the log is
    complete. Raises errors as `run_logs` does.
    """
    req = request.http
    found = await _wait_for_bytes(request, req.params.get("after"), wait_of(req), MAX_TEXT)
    headers = {"Cache-Control": NO_STORE}
    if not found.complete:
        headers["Link"] = f'<{_path(found.run)}?after={found.after}>; rel="next"'
    return respond(req, Content(found.data, "text/plain"), headers=headers)


async def log_stream(request: Request) -> func.HttpResponse:
    """Returns the log as events, with a last event after the run has ended. Raises errors as `run_logs` does."""
    req = request.http
    given = position(req)
    found = await _wait_for_bytes(request, given, HOLD_S, MAX_EVENTS)
    if given is not None and given.endswith(_END) and not found.pieces:
        return ended(req)
    events: list[tuple[str, dict[str, object]]] = []
    after = found.after
    for piece in found.pieces:
        whole = len(piece.data) if found.complete or piece is not found.pieces[-1] else _count_whole(piece.data)
        after = Position(piece.at.attempt, piece.at.offset + whole)
        if whole:
            text = piece.data[:whole].decode("utf-8", "replace")
            events.append((str(after), {"attempt": piece.at.attempt, "offset": piece.at.offset, "text": text}))
    end = {"status": found.run.record.job.status.value, "attempts": found.run.last_attempt} if found.complete else None
    return stream(
        req,
        events,
        following=f"{after}{_END}" if found.complete else str(after),
        crowded_by=None if found.room else request.caller.actor,
        end=end,
    )


async def _wait_for_bytes(request: Request, given: str | None, wait_s: float, limit: int) -> _Found:
    """Returns the bytes after a position. Waits until the run has written bytes or the time limit is reached.

    Raises RunsUnavailable, RequestError (400, 404), and errors as `read_job` does.
    """
    context, job_id = request.context(), job_id_of(request.http)
    end = time.monotonic() + wait_s
    run = await find_run(context, job_id)
    at = _position(given)
    found = await _read(run, at, limit)
    if found.pieces or found.complete or not wait_s:
        return found
    tenant, waiters = run.record.job.tenant, context.process.waiters
    if not waiters.has_room(tenant, follower=True):
        return _Found(run, [], at, complete=False, room=False)
    with waiters.hold(tenant, follower=True), history_tail(context, job_id) as tail:
        while not found.pieces and not found.complete and (left_s := end - time.monotonic()) > 0:
            if await tail.goes_past(run.record.job.event_seq, min(_LOOK_S, left_s)):
                run = await find_run(context, job_id)
            found = await _read(run, at, limit)
        if found.pieces and (written_at := found.pieces[-1].part.written_at) is not None:
            lag_s = (context.clock.now() - written_at).total_seconds()
            telemetry.observe("pack_run_logs_stream_lag_seconds", lag_s)
    return found


async def _read(run: Run, at: Position, limit: int) -> _Found:
    """Returns the present bytes after a position. Raises RequestError (400), RunsUnavailable."""
    has_ended = run.record.job.status.terminal
    pieces: list[Piece] = []
    while (left := limit - sum(len(piece.data) for piece in pieces)) > 0:
        try:
            piece = await read_log(run, at, limit=left)
        except ValueError:
            raise bad_cursor(_SOURCE) from None
        at = piece.after
        if not piece.data:
            return _Found(run, pieces, at, complete=has_ended)
        pieces.append(piece)
    return _Found(run, pieces, at, complete=False)


async def find_run(context: Context, job_id: str) -> Run:
    """Returns the run, also of an archived job. Raises errors as `read_job` does, and RequestError (404)."""
    record, _ = await read_job(context, job_id)
    if (run := run_of(context, record)) is None:
        raise RequestError(
            ProblemCode.RUN_NOT_FOUND, f"run not found: job {job_id} has no step of type {PACK}; check the job id"
        )
    return run


def _position(given: str | None) -> Position:
    """Parses a position. Raises RequestError (400)."""
    try:
        return Position.parse(given.removesuffix(_END)) if given else Position()
    except ValueError:
        raise bad_cursor(_SOURCE) from None


def _count_whole(data: bytes) -> int:
    """Returns the number of bytes up to the last complete character. The rest of the next character is not written or
    not read yet.
    """
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    decoder.decode(data)
    return len(data) - len(decoder.getstate()[0])


def _path(run: Run) -> str:
    return f"/v1/runs/{run.record.job.job_id}/logs"
