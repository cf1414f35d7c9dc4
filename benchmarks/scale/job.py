"""What one job without faults does, as `make bench` counts it."""

from __future__ import annotations

from dataclasses import dataclass

#: a message is sent, received and completed
_CALLS_A_MESSAGE = 3
#: Standard counts a credit for the send and one for the receive
_CREDITS_A_MESSAGE = 2

#: measured by `make bench`: bodies of the shipped protocols; the rest of an AMQP message is an estimate
DIRECTIVE_BYTES, REPLY_BYTES, MESSAGE_OVERHEAD_BYTES = 710, 370, 400
#: counted by tests/lucius_service/test_cost.py, of a service on the kit: a result and the attempt's record are written,
#: the record and the input read; the copy of the job's result at `output_ref` is read and written
BLOB_WRITES_A_STEP, BLOB_READS_A_STEP, BLOB_WRITES_A_COPY, BLOB_READS_A_COPY = 2, 2, 1, 1
#: a RESULT, and what the copy adds to it, without metrics
RESULT_BYTES, COPY_BYTES = 673, 268
#: measured by `make bench` on two cores (Xeon, 2026-11-22, commit 6d4a7f2): the whole host process, engine included
HOST_CPU_S = {1: 0.022, 2: 0.038, 3: 0.053}
#: CPU of a call of a store or of the durable client in a Python process: two cores, 2026-11-22, see docs/scale.md
CALL_CPU_S = 0.0025
#: of the sweeper: for a look the job, its orchestration's state, its next look; for the clearing of an ended job the
#: job, its claim, and both rows away
LOOK_CALLS, CLEARING_CALLS = 3, 4
#: estimates: a row with its keys; what a job leaves in logs and traces when each of its spans is kept
ROW_BYTES, TELEMETRY_BYTES_A_STEP = 900, 8_000


@dataclass(frozen=True)
class Job:
    """Counts of a job with `steps` steps, one after another."""

    steps: int

    @property
    def messages(self) -> int:
        """A directive, an ACK and a RESULT a step."""
        return 3 * self.steps

    @property
    def bus_operations(self) -> int:
        return _CALLS_A_MESSAGE * self.messages

    @property
    def bus_credits(self) -> int:
        return _CREDITS_A_MESSAGE * self.messages

    @property
    def bus_bytes(self) -> int:
        """In and out."""
        bodies = self.steps * (DIRECTIVE_BYTES + REPLY_BYTES + RESULT_BYTES) + COPY_BYTES
        return 2 * (bodies + self.messages * MESSAGE_OVERHEAD_BYTES)

    @property
    def blob_writes(self) -> int:
        """Of its services, without artifacts."""
        return BLOB_WRITES_A_STEP * self.steps + BLOB_WRITES_A_COPY

    @property
    def blob_reads(self) -> int:
        """Of its services: records of attempts, inputs, the result that is copied."""
        return BLOB_READS_A_STEP * self.steps + BLOB_READS_A_COPY

    @property
    def table_writes(self) -> int:
        """Requests: index and job at POST, the end with an earlier end's ENDED row; record, ACK and RESULT a step."""
        return 3 + 3 * self.steps

    @property
    def table_reads(self) -> int:
        """The claim; the job at each record and each ACK, where HTTP, Durable and each lane have processes apart."""
        return 1 + 2 * self.steps

    @property
    def entities_written(self) -> int:
        """POST: JOB, steps, EVENT. A move: JOB, STEP, EVENT. And those of the index, but for the claim's clearing."""
        return (2 + self.steps) + 3 * 3 * self.steps + self.index_entities - 2

    @property
    def entities_read(self) -> int:
        """A read of a job is JOB and its steps; the claim is one."""
        return 1 + (self.table_reads - 1) * (1 + self.steps)

    @property
    def index_entities(self) -> int:
        """Written to the tenant's one index partition.

        POST: CLAIM, ACTIVE, DUE, LIST. The end: these, and ENDED. The histories' clearing: ENDED from here to there.
        The claim's: CLAIM, ENDED.
        """
        return 4 + 5 + 2 + 2

    @property
    def rows_kept(self) -> int:
        """JOB, steps, an EVENT a move; CLAIM, LIST and ENDED."""
        return 1 + self.steps + (1 + 3 * self.steps) + 3

    @property
    def episodes(self) -> int:
        return 1 + 3 * self.steps

    @property
    def activities(self) -> int:
        return self.steps

    @property
    def executions(self) -> int:
        """Of functions: the POST, a reply function a reply, episodes and activities."""
        return 1 + 2 * self.steps + self.episodes + self.activities

    @property
    def scheduler_actions(self) -> int:
        """The start, two an activity, an event a reply."""
        return 1 + 2 * self.activities + 2 * self.steps

    @property
    def durable_messages(self) -> int:
        """Through control queues: the start, an activity's answer, an event a reply, and the timers of a step."""
        return 1 + self.activities + 2 * self.steps + 2 * self.steps
