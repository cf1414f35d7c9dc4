"""Long poll: a response of 304 is held back while it stays one (docs/decisions, "A job is waited for by long poll")."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable

import azure.functions as func

from shared.apidocs.problem_codes import ProblemCode
from shared.apidocs.route import Parameter
from triggers.http.problems import RequestError

#: below what proxies and load balancers cut off (230 s in Azure), and short enough that a shutdown need not wait long
MAX_WAIT_S = 20
#: between two reads of the ledger, which does not notify readers
_FIRST_LOOK_S = 0.25
_LOOK_S = 1.0
#: of one process: half of what host.json lets it serve at once, so that waiters never keep others out
MAX_WAITERS = 50

WAIT = Parameter(
    name="wait",
    where="query",
    schema={"type": "integer", "minimum": 0, "maximum": MAX_WAIT_S},
    description="With If-None-Match: seconds for which a 304 is held back, in case that the job changes meanwhile.",
)


def wait_of(req: func.HttpRequest) -> int:
    """Seconds; 0 without the parameter. Raises RequestError (400)."""
    given = req.params.get("wait", "0")
    if not (given.isascii() and given.isdecimal() and len(given) <= 3 and int(given) <= MAX_WAIT_S):
        detail = f"wait must be a whole number of seconds from 0 to {MAX_WAIT_S}"
        raise RequestError(ProblemCode.WAIT_INVALID, detail)
    return int(given)


class LongPoll:
    """How many responses this process holds back, and for which tenants.

    A tenant may hold as many as are free, so that none takes the last ones: alone half of them, and a tenant that holds
    none finds room.
    """

    def __init__(self) -> None:
        self._held: Counter[str | None] = Counter()

    async def wait(
        self, wait_s: int, tenant: str | None, read: Callable[[], Awaitable[tuple[func.HttpResponse, bool]]]
    ) -> func.HttpResponse:
        """What `read` gives once it is no 304, once nothing more will change, or when the time is up.

        Where too many are held already, what it gives now. `tenant` is the caller's; None: it sees every tenant's jobs.
        """
        if not wait_s or not self._has_room(tenant):
            return (await read())[0]
        left_s, pause_s = float(wait_s), _FIRST_LOOK_S
        self._held[tenant] += 1
        try:
            while True:
                response, final = await read()
                if response.status_code != 304 or final or left_s <= 0:
                    return response
                await asyncio.sleep(min(pause_s, left_s))
                left_s, pause_s = left_s - pause_s, min(pause_s * 2, _LOOK_S)
        finally:
            self._held[tenant] -= 1
            self._held += Counter()  # without those that hold none

    def _has_room(self, tenant: str | None) -> bool:
        free = MAX_WAITERS - self._held.total()
        return free > 0 and (tenant is None or self._held[tenant] < free)
