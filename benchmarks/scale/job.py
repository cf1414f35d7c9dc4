"""Operations of one job without faults, as `make bench` counts them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from benchmarks.measured import RECORDED
from benchmarks.scale.prices import BLOB_OTHERS, BLOB_READS, BLOB_WRITES

#: calls per message: send, receive, complete
_CALLS_A_MESSAGE = 3
#: credits of a Standard namespace per message: one for the send, one for the receive
_CREDITS_A_MESSAGE = 2

#: counts of `make bench`, which docs/explanation/performance.md shows
COUNTED: dict[str, Any] = json.loads((RECORDED / "jobs.json").read_text())["counts"]["figures"]
#: counts and CPU of a job, by its number of steps
ROWS: dict[int, dict[str, Any]] = {row["steps"]: row for row in COUNTED["jobs"]}

#: bodies of the shipped protocols, as counted; the rest of an AMQP message is an estimate
DIRECTIVE_BYTES = round(ROWS[3]["per_job"]["directive bytes"] / ROWS[3]["per_job"]["directives"])
REPLY_BYTES = round(ROWS[3]["per_job"]["reply bytes"] / ROWS[3]["per_job"]["replies"])
MESSAGE_OVERHEAD_BYTES = 400
#: CPU-ms of a 3-step job by process and by host, without idle processes (docs/explanation/performance.md shows them)
MEASURED: dict[str, Any] = json.loads((RECORDED / "microsoft.json").read_text())["cpu"]
_MICROSOFT = MEASURED["figures"]["LUCIUS, Microsoft's host and worker"]
#: CPU seconds of a 3-step job in Microsoft's host and worker
MICROSOFT_HOST_S, MICROSOFT_WORKER_S = _MICROSOFT["host"] / 1000, _MICROSOFT["worker"] / 1000
EMULATED_HOST_S = MEASURED["figures"]["LUCIUS, the emulated host"]["host"] / 1000
#: counted by tests/lucius_service/test_cost.py, of a service on the service SDK that names its result: the result is
#: written. The input and a missing record of the attempt are read. The metadata of the result is read and set. The copy
#: of the job's result at `output_ref` is read and written
BLOB_WRITES_A_STEP, BLOB_READS_A_STEP, BLOB_OTHERS_A_STEP, BLOB_WRITES_A_COPY, BLOB_READS_A_COPY = 1, 2, 2, 1, 1
#: bytes of a RESULT, and bytes that the copy adds to it, without metrics
RESULT_BYTES, COPY_BYTES = 673, 268
#: CPU of a call of a store or the durable client in a Python process: two cores, 2026-11-22 (docs/explanation/scale.md)
CALL_CPU_S = 0.0025
#: calls of the sweeper. A check reads the job, its orchestration's state and its next check. Clearing an ended job
#: reads the job and its claim, and deletes both rows
LOOK_CALLS, CLEARING_CALLS = 3, 4
#: bytes per row with its keys: an estimate
ROW_BYTES = 900
#: rows of Log Analytics, counted by tests/observability/test_cost.py: the spans that are always kept (request and job),
#: and the other spans per job and per step. Also the log records of a job (with ACCESS) and of a step, and a process's
#: metrics per minute
KEPT_SPAN_BYTES, SPAN_BYTES, SPAN_BYTES_A_STEP = 900, 550, 3_500
RECORD_BYTES, RECORD_BYTES_A_STEP = 1_300, 2_200
METRIC_BYTES_A_MINUTE = 6_200
#: of the Functions host itself, by its sources and not counted: at most one span for each execution; an estimate
HOST_SPAN_BYTES = 700


#: the group of the functions that read replies; number of these functions if each lane has its own
REPLIES, LANES = "replies", 16
#: seconds of one execution in each scale group
_WALL_S = {
    REPLIES if name == "lanes" else name: one["wall_ms_per_job"] / one["executions_per_job"] / 1000
    for name, one in COUNTED["groups"].items()
}


@dataclass(frozen=True)
class Group:
    """`functions` that scale separately, and the operations of a job in all of them together."""

    name: str
    functions: int
    executions: int
    #: seconds of one execution
    wall_s: float
    cpu_s: float


@dataclass(frozen=True)
class Job:
    """Counts of a job with `steps` steps, one after another."""

    steps: int

    @property
    def messages(self) -> int:
        """Returns the number of messages: a directive, an ACK and a RESULT per step."""
        return 3 * self.steps

    @property
    def replies(self) -> int:
        """Returns the number of replies: an ACK and a RESULT per step.

        With a shared reply queue, forwarding costs one more operation for each reply.
        """
        return 2 * self.steps

    @property
    def bus_operations(self) -> int:
        """Returns the number of operations on the bus, without forwarding."""
        return _CALLS_A_MESSAGE * self.messages

    @property
    def bus_credits(self) -> int:
        return _CREDITS_A_MESSAGE * self.messages

    @property
    def bus_bytes(self) -> int:
        """Returns the bytes in and out."""
        bodies = self.steps * (DIRECTIVE_BYTES + REPLY_BYTES + RESULT_BYTES) + COPY_BYTES
        return 2 * (bodies + self.messages * MESSAGE_OVERHEAD_BYTES)

    @property
    def blob_writes(self) -> int:
        """Returns the blob writes of its services, without artifacts."""
        return BLOB_WRITES_A_STEP * self.steps + BLOB_WRITES_A_COPY

    @property
    def blob_reads(self) -> int:
        """Returns the blob reads of its services: records of attempts, inputs, the result that is copied."""
        return BLOB_READS_A_STEP * self.steps + BLOB_READS_A_COPY

    @property
    def blob_others(self) -> int:
        """Returns the reads and writes of result metadata by its services."""
        return BLOB_OTHERS_A_STEP * self.steps

    @property
    def blob_usd(self) -> float:
        """Returns the dollars for the blobs of a million jobs, without artifacts."""
        return (
            self.blob_writes * BLOB_WRITES.usd + self.blob_reads * BLOB_READS.usd + self.blob_others * BLOB_OTHERS.usd
        )

    @property
    def table_writes(self) -> int:
        """Returns the write requests of a job: index and job at POST, the first attempt, and the end with an earlier
        end's ENDED row. Each step writes the ACK, and the RESULT with the attempt of the next step.
        """
        return 4 + 2 * self.steps

    @property
    def table_reads(self) -> int:
        """Returns the read requests: the job before each directive and at the first ACK.

        HTTP, Durable and each lane are separate processes.
        """
        return self.steps + 1

    @property
    def entities_written(self) -> int:
        """Returns the entities written.

        A POST writes JOB, steps and EVENT. A transition writes JOB, STEP and EVENT. Two transitions in one transaction
        write JOB once.

        Includes the entities of the index, without the clearing of the claim.
        """
        return (2 + self.steps) + 3 * 3 * self.steps - (self.steps - 1) + self.index_entities - 2

    @property
    def entities_read(self) -> int:
        """Returns the entities read. A read of a job is JOB and its steps."""
        return self.table_reads * (1 + self.steps)

    @property
    def index_entities(self) -> int:
        """Returns the entities written to the tenant's one index partition.

        A POST writes CLAIM, ACTIVE, DUE, LIST and CORRELATION. The end of the job writes CLAIM, ACTIVE, DUE, LIST and
        ENDED. Clearing of the history writes ENDED twice. Clearing of the claim writes CLAIM and ENDED.
        """
        return 5 + 5 + 2 + 2

    @property
    def rows_kept(self) -> int:
        """Returns the rows that a job leaves: JOB, steps, an EVENT per transition, CLAIM, LIST, CORRELATION and
        ENDED.
        """
        return 1 + self.steps + (1 + 3 * self.steps) + 4

    @property
    def episodes(self) -> int:
        return 1 + 3 * self.steps

    @property
    def activities(self) -> int:
        return self.steps

    @property
    def executions(self) -> int:
        """Returns the number of function executions: the POST, a reply function per reply, episodes and activities."""
        return 1 + self.replies + self.episodes + self.activities

    @property
    def cpu_s(self) -> float:
        """Returns the CPU seconds of Microsoft's host and worker, scaled by the emulated host's CPU for these steps."""
        used = {steps: row["cpu_ms_per_job"]["host"] for steps, row in ROWS.items()}
        return float((MICROSOFT_HOST_S + MICROSOFT_WORKER_S) * used[self.steps] / used[3])

    @property
    def groups(self) -> list[Group]:
        """Returns the scale groups on Flex Consumption.

        Wall times are those of `make bench`. CPU is distributed in proportion to wall times.
        """
        executions = {"http": 1, "durable": self.episodes + self.activities, REPLIES: self.replies}
        walls = {name: _WALL_S[name] * count for name, count in executions.items()}
        whole = sum(walls.values())
        return [
            Group(name, 1, count, _WALL_S[name], self.cpu_s * walls[name] / whole) for name, count in executions.items()
        ]

    @property
    def record_bytes(self) -> int:
        return RECORD_BYTES + RECORD_BYTES_A_STEP * self.steps

    def span_bytes(self, kept: float) -> float:
        """Returns the bytes of spans. `kept` is the share of stored traces, from 0 to 1."""
        return KEPT_SPAN_BYTES + kept * (SPAN_BYTES + SPAN_BYTES_A_STEP * self.steps)

    @property
    def host_span_bytes(self) -> int:
        """Returns the maximum bytes of spans of the Functions host itself."""
        return HOST_SPAN_BYTES * self.executions

    @property
    def scheduler_actions(self) -> int:
        """Returns the number of actions of the Durable Task Scheduler: the start, two per activity, and one event per
        reply.
        """
        return 1 + 2 * self.activities + 2 * self.steps

    @property
    def durable_messages(self) -> int:
        """Returns the number of messages of control queues: the start, an activity's result, an event per reply, and
        step timers.
        """
        return 1 + self.activities + 2 * self.steps + 2 * self.steps


@dataclass(frozen=True)
class Gated:
    """The additional operations of quotas for a job with any number of steps. `tests/adapters/test_gate_cost.py` counts
    them.
    """

    table_writes: int = 0
    table_reads: int = 0
    entities_written: int = 0
    messages: int = 0
    executions: int = 0


GATED = {
    "admitted immediately": Gated(1, 4, 4),
    "waits, admitted after another job ended": Gated(3, 12, 15),
    "waits, admitted by a wake-up": Gated(4, 14, 16, 1, 1),
}
