"""Jobs of three tenants, with everything that a job can have, while one row is at fault."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from shared.core.bulks import BulkAction
from shared.core.gates.rules import EVERY, Gate, GateKind
from shared.core.jobs.history import Origin
from shared.core.jobs.occurrences import ControlKind
from shared.operations.bulks.bulks import start_bulk
from shared.operations.jobs.control_job import control_job
from shared.operations.jobs.create_job import create_job
from shared.operations.quotas.quotas import By, set_rule
from shared.operations.webhooks.webhooks import HookRequest, create_hook
from shared.refusals import LimitReached
from tests.isolation.app import CREATES, SWEEP_EVERY_S, App
from tests.isolation.faults import Fault, Kind
from tests.isolation.row_types import type_of
from tests.jobs import envelope

#: the tenant whose rows are at fault; one with its own quota; one without
VICTIM, OTHER, FREE = TENANTS = ("tenant_a", "tenant_b", "tenant_c")

#: seconds from the beginning: the fault lasts for three sweeps, at 30, 90 and 150; the sums are taken after a fourth
FAULT_BEGINS_S, FAULT_ENDS_S, LOOKED_AT_S = 29, 160, 230
#: the hour before the beginning is folded five minutes after its end
_UNTIL_FOLD_S = 180
#: a job that has not ended by then never ends
_NEVER_S = 1_500
#: of a job that does not end by itself in the time of the fault
_LONG_S = 400
_STORE = "https://account.blob.core.windows.net"
_RECEIVER = "https://receiver.example/in"
_LAST = frozenset({"SUCCEEDED", "FAILED_FINAL", "CANCELLED"})

#: features that a world's jobs can have beside quotas, a breaker, a cancellation and a failure
DEPENDENCIES, BULK, EVENTS, PLATFORM, USAGE = "dependencies", "bulk", "events", "platform", "usage"
EVERYTHING = frozenset({DEPENDENCIES, BULK, EVENTS, PLATFORM, USAGE})


@dataclass
class Report:
    """The results of one world."""

    #: by tenant and name of a job: its status and the second of its end; None: it never ended
    ends: dict[tuple[str, str], tuple[str, float | None]] = field(default_factory=dict)
    #: until `LOOKED_AT_S`, by tenant: requests of its partitions and its jobs outside sweeps, and messages that left
    requests: dict[str, Counter[str]] = field(default_factory=dict)
    #: rows of jobs that are not gone with their end
    left: list[str] = field(default_factory=list)
    #: log records of WARNING
    warnings: list[dict[str, Any]] = field(default_factory=list)
    #: errors that functions raised; those of them that are no LuciusError
    reported: list[str] = field(default_factory=list)
    raised: list[str] = field(default_factory=list)
    #: requests that met the fault, and the keys of its rows
    met: int = 0
    keys: set[str] = field(default_factory=set)
    #: verbs of the requests during the fault, by the row's type; `there` if the row was there; `!`: under an ETag
    seen: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))


def run(row_type: str | None, kind: Kind = Kind.MISSING, has: Collection[str] = (), *, ends_by: float = 0) -> Report:
    """Runs one world whose jobs have the features `has`; `row_type` None: without a fault.

    A job that has not ended by the second `ends_by`, or 1,500 s after the beginning, never ends.
    """
    gc.disable()
    try:
        return asyncio.run(World(row_type, kind, has).run(max(ends_by, _NEVER_S)))
    finally:
        gc.enable()


class World:
    """See the module."""

    def __init__(self, row_type: str | None, kind: Kind, has: Collection[str]) -> None:
        self.app = App(events=EVENTS in has)
        self.report = Report()
        self._has = has
        self._ends_at_s = FAULT_ENDS_S if USAGE not in has else FAULT_ENDS_S + _UNTIL_FOLD_S
        self._fault: Fault | None = None
        if row_type is not None:
            app = self.app
            self._fault = Fault(
                app.account, row_type, kind, others=(OTHER, FREE), now=app.seconds, pause=app.scheduler.pause
            )
            app.account.watch = self._fault.watch
        else:
            self.app.account.watch = self._note
        #: by tenant and name
        self._jobs: dict[tuple[str, str], str] = {}

    async def run(self, never_s: float = _NEVER_S) -> Report:
        app = self.app
        handler = _Warnings(self.report)
        logger = logging.getLogger("lucius")
        logger.addHandler(handler)
        try:
            await self._rules()
            app.start_sweeps()
            self._requests()
            if self._fault is not None:
                app.scheduler.later(FAULT_BEGINS_S, self._fault.begin)
                app.scheduler.later(self._ends_at_s, self._fault.end)
            await self._until(self._ends_at_s + LOOKED_AT_S - FAULT_ENDS_S)
            self.report.requests = self._sums()
            while not self._all_ended() and app.seconds() < never_s:
                await self._until(app.seconds() + SWEEP_EVERY_S)
            await self._until(app.seconds() + SWEEP_EVERY_S + 1)
            self._look()
        finally:
            logger.removeHandler(handler)
            await app.scheduler.close()
        return self.report

    async def _until(self, second: float) -> None:
        scheduler = self.app.scheduler
        scheduler.at(scheduler.now + timedelta(seconds=second - self.app.seconds()), lambda: None)
        until = scheduler.now + timedelta(seconds=second - self.app.seconds())
        await scheduler.run(until, lambda: scheduler.now >= until)

    async def _note(self, table: str, partition: str, key: str, verb: str, under_etag: bool) -> None:
        if FAULT_BEGINS_S <= self.app.seconds() < self._ends_at_s:
            seen = self.report.seen[type_of(partition, key)]
            seen.add(verb + "!" * under_etag)
            if key in self.app.account.tables[table].partitions[partition].rows:
                seen.add("there")

    # --- requests

    async def _rules(self) -> None:
        for tenant in (VICTIM, OTHER):
            await self._rule(Gate(GateKind.TYPE, tenant, "OCR"), max_active=2 if tenant == VICTIM else 1)
            if EVENTS in self._has:
                await create_hook(self.app.context, tenant, HookRequest(url=_RECEIVER), "operator")
        await self._rule(
            Gate(GateKind.TYPE, VICTIM, "OCR"), breaker={"min_calls": 2, "failure_rate": 0.2, "cooldown_s": 60}
        )
        if USAGE in self._has:
            await self._rule(Gate(GateKind.TENANT, VICTIM), max_staged=2)
        if PLATFORM in self._has:
            await self._rule(Gate.over_all(GateKind.PLATFORM_TYPE, "OCR"), max_active=2)
            await self._rule(Gate(GateKind.TYPE, EVERY, "OCR_EMBEDDING"), max_active=5)

    async def _rule(self, gate: Gate, **numbers: Any) -> None:
        by = By(actor="operator", reason="test")
        await set_rule(self.app.context, self.app.orchestrations, gate, numbers, by, rule_seq=None)

    def _requests(self) -> None:
        """Jobs that work or wait while the fault begins, and others that come then."""
        self._post(0, VICTIM, "long", 33)
        self._post(0, VICTIM, "fails", 37, fails=True)
        self._post(2, VICTIM, "waits", 3)
        self._post(3, VICTIM, "cancelled", _LONG_S)
        self._at(32, VICTIM, "cancel", self._cancel)
        self._post(30, VICTIM, "new", 4, source="importer", **self._callback())
        self._post(105, VICTIM, "later", 2)
        self._post(0, OTHER, "long", 32)
        self._post(1, OTHER, "waits", 3)
        self._post(31, OTHER, "new", 4, **self._callback())
        self._post(5, FREE, "rescued", 2)
        self._post(31, FREE, "new", 4)
        if DEPENDENCIES in self._has:
            self._post(1, VICTIM, "after_long", 2, dependencies=["long"])
            self._post(1, VICTIM, "after_fails", 2, dependencies=["fails"])
            self._post(0, FREE, "steps", 20, request_type="OCR_EMBEDDING", payload={"ocr": {}, "embedding": {}})
            self._post(1, FREE, "after_steps", 2, dependencies=["steps"])
        if BULK in self._has:
            self._post(3, VICTIM, "in_bulk", _LONG_S, labels={"team": "bulk"})
            self._at(32, VICTIM, "bulk", self._bulk)
        self.app.services.sends(36, b"no reply")

    def _callback(self) -> dict[str, Any]:
        return {"callback_urls": {"done": _RECEIVER}} if EVENTS in self._has else {}

    def _post(
        self, second: float, tenant: str, name: str, work_s: float, *, fails: bool = False, **changes: Any
    ) -> None:
        document = f"{tenant}-{name}"
        self.app.services.work_s[document] = work_s
        if fails:
            self.app.services.fails.add(document)

        async def post() -> None:
            CREATES.set(f"{tenant}_{name}")
            needed = [self._jobs[tenant, each] for each in changes.get("dependencies", ())]
            body = {
                "tenant_id": tenant,
                "doc_id": name,
                "request_type": "OCR",
                "payload": {},
                "input_ref": {"uri": f"{_STORE}/documents/{document}"},
                **changes,
                **({"dependencies": needed} if needed else {}),
            }
            created = await create_job(self.app.context, self.app.orchestrations, envelope(**body), correlation_id=None)
            self._jobs[tenant, name] = created.stored.record.job.job_id

        self._jobs.setdefault((tenant, name), "")
        self._at(second, tenant, f"post of {name}", post)

    async def _bulk(self) -> None:
        await start_bulk(
            self.app.context,
            tenant=VICTIM,
            action=BulkAction.CANCEL,
            words={"label": "team:bulk"},
            reason="why",
            actor="operator",
            key="k",
        )

    async def _cancel(self) -> None:
        origin = Origin(cause_id="request:cancel", actor="operator", source="http", reason="stop")
        job_id = self._jobs[VICTIM, "cancelled"]
        await control_job(self.app.context, self.app.orchestrations, job_id, ControlKind.CANCEL, origin)

    def _at(self, second: float, tenant: str, name: str, request: Callable[[], Awaitable[None]]) -> None:
        """A caller sends the request again after an error, after a second and then after ever longer waits."""

        async def send() -> None:
            wait_s = 1.0
            while True:
                try:
                    return await request()
                except LimitReached:
                    pass
                except Exception as error:
                    self.app.note_raised(f"{name} of {tenant}", error)
                await self.app.scheduler.pause(wait_s)
                wait_s = min(2 * wait_s, 30)

        self.app.scheduler.later(second, lambda: self.app.scheduler.spawn(send()))

    # --- results

    def _sums(self) -> dict[str, Counter[str]]:
        """Returns requests of each tenant's partitions and jobs, and messages of its jobs."""
        found: dict[str, Counter[str]] = {tenant: Counter() for tenant in TENANTS}
        for name, counts in (("tables", self.app.account.calls), ("sent", self.app.sent)):
            for key, count in counts.items():
                tenant = next((each for each in TENANTS if key == each or key.startswith(f"job_{each}_")), None)
                if tenant is not None:
                    found[tenant][name] += count
        return found

    def _all_ended(self) -> bool:
        rows = self._rows()
        return all(job_id in rows and rows[job_id]["status"] in _LAST for job_id in self._jobs.values())

    def _rows(self) -> dict[str, dict[str, Any]]:
        ledger = self.app.account.tables["ledger"].partitions
        return {job_id: part.rows["JOB"].values for job_id, part in ledger.items() if "JOB" in part.rows}

    def _look(self) -> None:
        rows, begin = self._rows(), self.app.now() - timedelta(seconds=self.app.seconds())
        for (tenant, name), job_id in self._jobs.items():
            row = rows.get(job_id)
            ended = row.get("completed_at") if row is not None else None
            status = row["status"] if row is not None else "NOT THERE"
            self.report.ends[tenant, name] = (status, (ended - begin).total_seconds() if ended is not None else None)
        for _, partition, key, _ in self.app.account.rows():
            if key.partition(":")[0] in ("ACTIVE", "DUE", "WAIT", "FREED"):
                self.report.left.append(f"{partition} {key}")
        self.report.raised, self.report.reported = self.app.raised, self.app.reported
        if self._fault is not None:
            self.report.met, self.report.keys = self._fault.met, self._fault.keys


class _Warnings(logging.Handler):
    def __init__(self, report: Report) -> None:
        super().__init__(logging.WARNING)
        self._report = report

    def emit(self, record: logging.LogRecord) -> None:
        self._report.warnings.append(json.loads(record.getMessage()))
