"""Counts requests of the app over the tables, in one process or in Flex Consumption's processes.

On Flex Consumption HTTP, Durable, and each lane's replies are separate processes, which share the tables only.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import Any

import pytest

from shared.adapters.blobs import BlobTexts
from shared.adapters.tables.account import TablesAccount
from shared.adapters.tables.admissions import TablesAdmissions
from shared.adapters.tables.allocations import TablesAllocations
from shared.adapters.tables.bulks import TablesBulks
from shared.adapters.tables.direct import DirectAccount
from shared.adapters.tables.incidents import TablesIncidents
from shared.adapters.tables.index import TablesIndex
from shared.adapters.tables.ledger import TablesLedger
from shared.core.jobs.job import Record
from shared.operations.jobs.create_job import create_job
from shared.operations.jobs.dispatch_step import dispatch_step
from shared.operations.jobs.replies.receive import ReplyMessage, receive_reply
from shared.operations.process.gate_directory import GateDirectory
from shared.operations.process.recent_ends import RecentEnds
from shared.operations.process.recent_jobs import RecentJobs
from shared.ports.durable import InstanceState
from tests.contexts import changed
from tests.jobs import envelope, reply
from tests.operations.conftest import World, world

__all__ = ["world"]  # a fixture of the operations' tests

STEPS = {"OCR": ("ocr",), "OCR_EMBEDDING": ("ocr", "embedding"), "OCR_EMBEDDING_SIS": ("ocr", "embedding", "sis")}
PAYLOADS: dict[str, Any] = {"ocr": {}, "embedding": {}, "sis": {"prompt_set": ["When does the lease end?"]}}


@dataclass
class App:
    """The world's functions in three processes, over the tables; `requests` counts the requests of all of them."""

    world: World
    http: World
    durable: World
    lane: World
    requests: Counter[str]
    #: bodies of requests to the tables, in bytes
    sent: Counter[str]

    async def job(self, request_type: str, number: int) -> None:
        """Runs one job from its POST to its end, without faults, and advances the clock past its histories' time."""
        await self.run(await self.post(request_type, number))

    def limited(self, **settings: Any) -> App:
        """With other settings, in every process."""

        def process(world: World) -> World:
            limits = replace(world.context.settings, **settings)
            return replace(world, context=changed(world.context, settings=limits, gate_directory=GateDirectory()))

        apart = self.lane is not self.http
        http = process(self.http)
        durable, lane = (process(self.durable), process(self.lane)) if apart else (http, http)
        return replace(self, http=http, durable=durable, lane=lane)

    async def post(self, request_type: str, number: int) -> Record:
        steps = STEPS[request_type]
        asked = envelope(
            request_type=request_type,
            payload={step: PAYLOADS[step] for step in steps} if len(steps) > 1 else PAYLOADS[steps[0]],
            idempotency_key=f"key-{number}",
        )
        created = await create_job(self.http.context, self.world.orchestrations, asked, correlation_id=None)
        return created.stored.record

    async def run(self, record: Record) -> None:
        job_id, steps = record.job.job_id, STEPS[record.job.request_type]
        for place, step_id in enumerate(steps):
            await dispatch_step(
                self.durable.context, self.world.orchestrations, job_id=job_id, instance_id=job_id, step_id=step_id
            )
            sent = self.world.publisher.sent[-1]
            for type_ in ("ACK", "RESULT"):
                self.world.clock.advance(1)
                answer = reply(record, type_, step_id, attempt_no=1, lease_id=sent.lease_id)
                message = ReplyMessage(
                    body=answer.model_dump_json(exclude_none=True).encode(),
                    lane=sent.lane,
                    message_id=f"{type_}-{place}",
                    sequence_number=place,
                    delivery_count=1,
                    enqueued_at=self.world.clock.now(),
                )
                await receive_reply(self.lane.context, self.world.orchestrations, message)
        self.world.orchestrations.states[job_id] = InstanceState.ENDED
        self.world.clock.advance(15)


@pytest.fixture(params=["one process", "apart"])
async def app(
    request: pytest.FixtureRequest, azurite: str, world: World, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[App]:
    requests, sent = Counter[str](), Counter[str]()
    real = DirectAccount.send

    async def send(self: DirectAccount, method: str, path: str, *args: Any, **fields: Any) -> Any:
        of_directory = path.startswith(("gates", "/gates"))
        requests["directory" if of_directory else "reads" if method == "GET" else "writes"] += 1
        sent["table bytes"] += len(fields.get("body") or b"")
        return await real(self, method, path, *args, **fields)

    monkeypatch.setattr(DirectAccount, "send", send)
    own = uuid.uuid4().hex[:12]
    async with AsyncExitStack() as closing:

        async def process() -> World:
            account = TablesAccount.connect(
                connection=azurite, endpoint=None, credential=None, version_table=f"tenants{own}"
            )
            texts = BlobTexts.connect(connection=azurite, endpoint=None, credential=None)
            closing.push_async_callback(account.close)
            closing.push_async_callback(texts.close)
            context = changed(
                world.context,
                ledger=TablesLedger(account, f"ledger{own}", texts),
                index=TablesIndex(account, f"index{own}", f"tenants{own}"),
                admissions=TablesAdmissions(account, f"index{own}", f"gates{own}"),
                incidents=TablesIncidents(account, f"index{own}", f"gates{own}"),
                allocations=TablesAllocations(account, f"gates{own}"),
                bulks=TablesBulks(account, f"index{own}", f"gates{own}"),
                gate_directory=GateDirectory(),
                recent_jobs=RecentJobs(),
                recent_ends=RecentEnds(),
            )
            return replace(world, context=context)

        http = await process()
        apart = request.param == "apart"
        durable, lane = (await process(), await process()) if apart else (http, http)
        yield App(world, http, durable, lane, requests, sent)
