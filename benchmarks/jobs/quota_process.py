"""A process with the part of LUCIUS that a tenant's quota needs. The process creates jobs, starts them, and ends them.

`python -m benchmarks.jobs.quota_process SETTINGS` is such a process over tables. SETTINGS is JSON. The process reads
commands (see `QuotaProcess.obey`) as lines of JSON on stdin and writes one line for each command. The memory stores are
for processes that are objects in one event loop (`in_memory`).

No directive or call is sent, and no orchestration starts, so that no bus and no durable engine is measured.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from benchmarks.jobs.services import replies
from shared.adapters.tables import wire
from shared.adapters.tables.direct import DirectAccount, DirectTable
from shared.contracts.envelope import Envelope
from shared.contracts.messages import Directive
from shared.errors import AlreadyExists, Conflict, Transient
from shared.operations.jobs.create_job import create_job
from shared.operations.jobs.dispatch_step import dispatch_step
from shared.operations.jobs.replies.receive import ReplyMessage, receive_reply
from shared.operations.process.context import Context
from shared.ports.durable import Instance, InstanceState
from shared.refusals import Overloaded
from shared.settings import load
from shared.wiring import Wiring

TENANT = "tenant-a"
#: ports of the context that are stores
STORES = ("ledger", "index", "admissions", "incidents", "allocations", "bulks", "usage")
#: calls of the memory stores that are transactions of the tenant's partition
_TRANSACTIONS = frozenset({"reserve", "reserve_together", "move_place", "move_places", "write_admission", "close"})
#: seconds between two tries of a request that got 503, or of a reply after a fault
_PAUSE_S = 0.1
#: a call to a memory store takes its delay times a random number between these
_JITTER = (0.7, 1.6)
_PREPARED_AT_ONCE = 16
_BARE_PARTITION = "bare"
_SETTINGS = {
    "LUCIUS_AUTH_MODE": "none",
    "LUCIUS_EVENTS": "off",
    "LUCIUS_OVERFLOW": "stage",
    "LUCIUS_SERVICEBUS_CONNECTION": "Endpoint=sb://127.0.0.1;SharedAccessKeyName=none;SharedAccessKey=none",
}


class _Engine:
    """See `shared.ports.durable.Orchestrations`. Starts nothing."""

    async def start(self, instance_id: str, plan: dict[str, Any]) -> None:
        return

    async def look_up(self, instance_id: str) -> Instance:
        return Instance(InstanceState.NOT_FOUND)

    async def terminate(self, instance_id: str, reason: str) -> None:
        return

    async def purge(self, instance_id: str) -> bool:
        return True

    async def raise_event(self, instance_id: str, name: str, data: dict[str, Any]) -> None:
        return


class _Calls:
    """See `shared.ports.bus.AdmissionCalls`. Sends nothing."""

    async def call(self, *_: Any, **__: Any) -> None: ...

    async def call_allocation(self, *_: Any, **__: Any) -> None: ...


@dataclass
class _Directives:
    """See `shared.ports.bus.DirectivePublisher`. Keeps the last directive of each job."""

    sent: dict[str, Directive] = field(default_factory=dict)

    async def publish(self, directive: Directive, *, time_to_live_s: float | None) -> None:
        self.sent[directive.jobId] = directive


class _Delayed:
    """A store that counts its calls and delays each by about `delay_s`."""

    def __init__(self, store: Any, delay_s: float, counts: Counter[str]) -> None:
        self._store, self._delay_s, self._counts = store, delay_s, counts

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._store, name)
        if not asyncio.iscoroutinefunction(call):
            return call

        async def delayed(*args: Any, **fields: Any) -> Any:
            is_transaction = name in _TRANSACTIONS
            self._counts.update(requests=1, transactions=is_transaction)
            await asyncio.sleep(self._delay_s * random.uniform(*_JITTER))
            try:
                return await call(*args, **fields)
            except (Conflict, AlreadyExists):
                self._counts.update(conflicts=is_transaction)
                raise

        return delayed


@dataclass
class QuotaProcess:
    """A process with its own context. `counts` has its requests to the stores."""

    context: Context
    counts: Counter[str] = field(default_factory=Counter)
    _engine: _Engine = field(default_factory=_Engine)
    _directives: _Directives = field(default_factory=_Directives)

    def __post_init__(self) -> None:
        bus = replace(self.context.bus, publisher=self._directives, admission_calls=_Calls())
        self.context = replace(self.context, bus=bus)

    async def obey(self, command: Mapping[str, Any]) -> Any:
        """Runs the command `do`:

        - `prepare` creates and starts jobs of these `numbers`, and returns the RESULT of each admitted job.
        - `end` ends jobs. Each item of `work` is a time (seconds after `begin`) and a RESULT.
        - `create` creates jobs. Each item of `work` is a time and a number.
        - `count` returns the number of jobs that have not ended, by the tenant's counts and by its rows.
        - `bare` sends `chains` of transactions and reads without LUCIUS (see `_bare`).

        `end`, `create` and `bare` return begin and end of each operation, by the loop's clock, and counts of requests.
        `callers` is the maximum number of concurrent operations.
        """
        do = command["do"]
        if do == "prepare":
            return await self._prepare(command["numbers"])
        if do == "count":
            return await self._count()
        self.counts.clear()
        if do == "bare":
            spans = await self._bare(command)
        else:
            spans = await _run(command, self._create if do == "create" else self._end)
        return {"spans": spans, "counts": dict(self.counts)}

    async def _prepare(self, numbers: Sequence[int]) -> list[str]:
        turns, results = asyncio.Semaphore(_PREPARED_AT_ONCE), []

        async def one(number: int) -> None:
            async with turns:
                job_id = await self._create(number)
                await dispatch_step(self.context, self._engine, job_id=job_id, instance_id=job_id, step_id="ocr")
            if (directive := self._directives.sent.pop(job_id, None)) is not None:
                results.append(json.dumps(replies(directive.model_dump(mode="json"))[1]))

        await asyncio.gather(*map(one, numbers))
        return results

    async def _create(self, number: int) -> str:
        while True:
            try:
                created = await create_job(self.context, self._engine, _envelope(number), correlation_id=None)
            except (Transient, Overloaded):
                self.counts["again"] += 1
                await asyncio.sleep(_PAUSE_S)
            else:
                return created.stored.record.job.job_id

    async def _end(self, result: str) -> None:
        delivery = 1
        while True:
            message = ReplyMessage(
                body=result.encode(),
                lane=0,
                message_id=json.loads(result)["jobId"],
                sequence_number=1,
                delivery_count=delivery,
                enqueued_at=self.context.clock.now(),
            )
            try:
                return await receive_reply(self.context, self._engine, message)
            except Transient:
                self.counts["again"] += 1
                delivery += 1
                await asyncio.sleep(_PAUSE_S)

    async def _count(self) -> dict[str, int]:
        stored = await self.context.admissions.read(TENANT)
        rows, after = [], None
        while page := await self.context.index.list_active(TENANT, after=after, limit=1000):
            rows += page
            after = page[-1].job_id
        admission = stored.admission if stored is not None else None
        return {"counted": admission.active + admission.staged if admission is not None else 0, "rows": len(rows)}

    async def _bare(self, command: Mapping[str, Any]) -> list[tuple[float, float]]:
        """Runs `chains` concurrently in one partition. A chain alternates its `transactions` and `reads`, one request
        after another. A transaction creates `rows` rows and has `bytes` bytes.
        """
        table = await self.context.index._account.table("bare")  # type: ignore[attr-defined]
        assert isinstance(table, DirectTable)
        rows = command["rows"]

        def operations(key: str, text: str) -> list[Any]:
            row = {"PartitionKey": _BARE_PARTITION, "text": text}
            return [("create", {**row, "RowKey": f"{key}:{place:02d}"}) for place in range(rows)]

        key = f"{os.getpid()}:{_now()}"
        empty = len(wire.transaction_of(table._account.url, "bare", operations(f"{key}:000:000", "")))
        text = "x" * max(0, (command["bytes"] - empty) // rows)

        async def chain(number: int) -> None:
            for place in range(max(command["transactions"], command["reads"])):
                if place < command["transactions"]:
                    await self._sent(table.submit_transaction, operations(f"{key}:{number:03d}:{place:03d}", text))
                if place < command["reads"]:
                    await self._sent(table.get_entity, _BARE_PARTITION, f"{key}:{number:03d}:000:00")

        work = [(0.0, number) for number in range(command["chains"])]
        return await _run({**command, "work": work}, chain)

    async def _sent(self, send: Callable[..., Awaitable[Any]], *arguments: Any) -> None:
        """Sends the request, and repeats the request after a temporary fault."""
        while True:
            try:
                await send(*arguments)
            except Transient:
                self.counts["again"] += 1
                await asyncio.sleep(_PAUSE_S)
            except AlreadyExists:
                # the response to an earlier try was lost
                return
            else:
                return


def _now() -> float:
    """Returns the seconds of the loop's clock, which the processes of one machine share."""
    return asyncio.get_running_loop().time()


async def _run(command: Mapping[str, Any], act: Callable[[Any], Awaitable[Any]]) -> list[tuple[float, float]]:
    """Returns begin and end of each operation. With `callers`, the begin is the time when a caller is free. Without
    `callers`, the begin is the due time.
    """
    begin, callers = command["begin"], command.get("callers")
    turns = asyncio.Semaphore(callers or len(command["work"]) or 1)

    async def one(at_s: float, what: Any) -> tuple[float, float]:
        due = begin + at_s
        await asyncio.sleep(max(0.0, due - _now()))
        async with turns:
            began = _now() if callers else due
            await act(what)
            return began, _now()

    return await asyncio.gather(*(one(at_s, what) for at_s, what in command["work"]))


def _envelope(number: int) -> Envelope:
    return Envelope.model_validate(
        {
            "schema_version": "1.0",
            "tenant_id": TENANT,
            "request_type": "OCR",
            "input_ref": {"uri": "https://account.blob.core.windows.net/documents/lease.pdf"},
            "output_ref": {"uri": "https://account.blob.core.windows.net/results"},
            "payload": {},
            "idempotency_key": f"number-{number}",
        }
    )


def in_memory(processes: int, *, limit: int, delay_s: float) -> list[QuotaProcess]:
    """Creates processes over one memory store, in this event loop. `limit` is the maximum number of active jobs of the
    tenant.

    A call to the store takes `delay_s` times a random number between 0.7 and 1.6.
    """
    environment = {**_SETTINGS, "LUCIUS_STORAGE_BACKEND": "memory", **_limit(limit)}
    found = [QuotaProcess(Wiring(load(environment)).context()) for _ in range(processes)]
    stores = {name: getattr(found[0].context, name) for name in STORES}
    for each in found:
        delayed: dict[str, Any] = {name: _Delayed(store, delay_s, each.counts) for name, store in stores.items()}
        each.context = replace(each.context, **delayed)
    return found


def over_tables(connection: str, *, own: str, limit: int) -> dict[str, str]:
    """Returns the settings of a process over tables whose names end with `own`."""
    tables = {f"LUCIUS_{name.upper()}_TABLE": f"{name}{own}" for name in ("ledger", "index", "tenants", "gates")}
    tables |= {f"LUCIUS_{name.upper()}_TABLE": f"{name}{own}" for name in ("rejected", "feed")}
    connections = {"LUCIUS_TABLE_CONNECTION": connection, "LUCIUS_BLOB_CONNECTION": connection}
    return {**_SETTINGS, "LUCIUS_STORAGE_BACKEND": "tables", **connections, **tables, **_limit(limit)}


def _limit(limit: int) -> dict[str, str]:
    return {"LUCIUS_MAX_INFLIGHT_PER_TENANT": str(limit)}


def _count_requests(counts: Counter[str], index: str) -> None:
    """Counts requests of this process, and transactions of the table `index`."""
    send, submit = DirectAccount.send, DirectTable.submit_transaction

    async def counted_send(self: DirectAccount, method: str, path: str, *args: Any, **fields: Any) -> Any:
        is_transaction = path == "/$batch"
        counts.update(requests=1, batches=is_transaction, bytes=len(fields["body"]) if is_transaction else 0)
        return await send(self, method, path, *args, **fields)

    async def counted_submit(self: DirectTable, operations: Sequence[Any]) -> Any:
        is_tenants = self._name == index
        counts.update(transactions=is_tenants, rows=len(operations))
        try:
            return await submit(self, operations)
        except (Conflict, AlreadyExists):
            counts.update(conflicts=is_tenants)
            raise

    DirectAccount.send = counted_send  # type: ignore[method-assign]
    DirectTable.submit_transaction = counted_submit  # type: ignore[method-assign]


async def _main(environment: dict[str, str]) -> None:
    # log records of the app are not measured
    logging.disable(logging.CRITICAL)
    process = QuotaProcess(Wiring(load(environment)).context())
    _count_requests(process.counts, environment["LUCIUS_INDEX_TABLE"])
    lines = asyncio.StreamReader(limit=2**26)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    print("ready", flush=True)
    while line := await lines.readline():
        print(json.dumps(await process.obey(json.loads(line))), flush=True)
    # end without cleanup: no result is kept, so connections need no close
    os._exit(0)


if __name__ == "__main__":
    asyncio.run(_main(json.loads(sys.argv[1])))
