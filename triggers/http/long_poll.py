"""Long poll: a response of 304 is held back while it stays one (docs/decisions, "A job is waited for by long poll")."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable

import azure.functions as func

from shared.apidocs.problem_codes import ProblemCode
from shared.apidocs.route import Parameter
from shared.operations.waiters import Waiters
from triggers.http.problems import RequestError

#: below what proxies and load balancers cut off (230 s in Azure), and short enough that a shutdown need not wait long
MAX_WAIT_S = 20
#: between two reads of the ledger, which notifies of no other process's commits; longer after the first looks
_FIRST_LOOK_S = 0.25
_FIRST_LOOKS = 8
_LOOK_S = 1.0

WAIT = Parameter(
    name="wait",
    where="query",
    schema={"type": "integer", "minimum": 0, "maximum": MAX_WAIT_S},
    description="With If-None-Match: seconds for which a 304 is held back, in case that the job changes meanwhile.",
)


UNTIL = Parameter(
    name="until",
    where="query",
    schema={"enum": ["changed", "admitted"], "default": "changed"},
    description="With `wait`: `admitted` holds the answer, whatever it is, while the job waits for its gates or for "
    "other jobs, and needs no If-None-Match.",
)


def until_admitted(req: func.HttpRequest) -> bool:
    """Whether the answer is held until the job's gates let it in. Raises RequestError (400)."""
    given = req.params.get("until", "changed")
    if given not in UNTIL.schema["enum"]:
        raise RequestError(ProblemCode.WAIT_INVALID, "until is changed or admitted")
    return bool(given == "admitted")


def wait_of(req: func.HttpRequest) -> int:
    """Seconds; 0 without the parameter. Raises RequestError (400)."""
    given = req.params.get("wait", "0")
    if not (given.isascii() and given.isdecimal() and len(given) <= 3 and int(given) <= MAX_WAIT_S):
        detail = f"wait must be a whole number of seconds from 0 to {MAX_WAIT_S}"
        raise RequestError(ProblemCode.WAIT_INVALID, detail)
    return int(given)


class LongPoll:
    """Holds responses back, as far as there is room among the `waiters` of this process."""

    def __init__(self, waiters: Waiters | None = None) -> None:
        self._waiters = waiters or Waiters()

    async def wait(
        self,
        wait_s: int,
        tenant: str | None,
        read: Callable[[], Awaitable[tuple[func.HttpResponse, bool]]],
        changed: asyncio.Event,
        *,
        until_final: bool = False,
        follower: bool = False,
    ) -> func.HttpResponse:
        """What `read` gives once it is no 304, once it is final (nothing that is waited for will change), or when the
        time is up. `until_final`: in the first case it goes on. `follower`: it waits for events.

        Where too many are held already, what it gives now. `tenant` is the caller's; None: it sees every tenant's jobs.
        `changed` ends a pause between two reads.
        """
        if not wait_s or not self._waiters.has_room(tenant, follower=follower):
            return (await read())[0]
        left_s, looks = float(wait_s), 0
        with self._waiters.hold(tenant, follower=follower):
            while True:
                # before the read, or a commit during it would be missed
                changed.clear()
                response, final = await read()
                if final or left_s <= 0 or (response.status_code != 304 and not until_final):
                    return response
                looks += 1
                pause_s = min(_FIRST_LOOK_S if looks <= _FIRST_LOOKS else _LOOK_S, left_s)
                left_s -= await _pause(changed, pause_s)


async def _pause(changed: asyncio.Event, seconds: float) -> float:
    """Until the change, or for so long; the seconds that it took."""
    began = time.monotonic()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await changed.wait()
            return min(seconds, time.monotonic() - began)
    return seconds
