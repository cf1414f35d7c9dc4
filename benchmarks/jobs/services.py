"""`python -m benchmarks.jobs.services CONNECTION STEP,... [PREFIX]`: platform services in one process.

The services reply with an ACK on receipt and the RESULT immediately after the ACK, so that only LUCIUS is measured. The
services receive as the service SDK does. Steps with a `!` before their name get an ACK only: their jobs wait until a
command requests the RESULT.

The services read LUCIUS's lanes. With PREFIX the services read the queues PREFIX-STEP, and reply to the queue
PREFIX-replies.

Commands are lines on stdin. `report` writes the directives and the sizes of the replies since the last report, as a
line of JSON. `finish JOB` sends the RESULT that JOB waits for.
"""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from azure.servicebus import ServiceBusMessage
from azure.servicebus.aio import ServiceBusClient

from benchmarks.jobs.stack import ROOT, cpu_seconds
from emulator.up.parent_death import end_with_parent

LANES = range(16)
#: seconds after which the SDK wakes an idle receiver; a frame wakes it immediately
_SOCKET_TIMEOUT_S = 2.0


class Services:
    """The process of the services, which the benchmark controls."""

    def __init__(self, connection: str, steps: Sequence[str], prefix: str | None = None) -> None:
        words = [connection, ",".join(steps), *([prefix] if prefix else [])]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.jobs.services", *words],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
            preexec_fn=end_with_parent(signal.SIGTERM),
        )
        assert self._process.stdout is not None
        if self._process.stdout.readline() != "ready\n":
            raise SystemExit("the services did not start")

    @property
    def pid(self) -> int:
        return self._process.pid

    def cpu_s(self) -> float:
        return cpu_seconds([self._process.pid])

    def report(self) -> dict[str, Any]:
        """Returns the directives and replies since the last report.

        `directives` has (job, step, bytes, `time.monotonic` when read) for each directive. `reply_bytes` has the size
        of each reply.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print("report", file=self._process.stdin, flush=True)
        seen: dict[str, Any] = json.loads(self._process.stdout.readline())
        return seen

    def finish(self, job_id: str) -> None:
        assert self._process.stdin is not None
        print(f"finish {job_id}", file=self._process.stdin, flush=True)

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait()


class _Answering:
    def __init__(self, senders: Sequence[Any]) -> None:
        #: senders by lane
        self._senders = senders
        #: locks, since the SDK's sender does not support concurrent use
        self._alone = [asyncio.Lock() for _ in senders]
        self._held: dict[str, tuple[int, dict[str, Any]]] = {}
        self._directives: list[tuple[str, str, int, float]] = []
        self._reply_bytes: list[int] = []

    async def serve(self, receiver: Any, lane: int, *, holds: bool) -> None:
        async with receiver:
            while True:
                # with a higher count the SDK delays the first message to wait for others
                for message in await receiver.receive_messages(max_message_count=1, max_wait_time=60):
                    await self._answer(message, lane, holds=holds)
                    await receiver.complete_message(message)

    async def _answer(self, message: Any, lane: int, *, holds: bool) -> None:
        read_at = time.monotonic()
        body = b"".join(message.body)
        directive = json.loads(body)
        self._directives.append((directive["jobId"], directive["stepId"], len(body), read_at))
        ack, result = replies(directive)
        await self._send(lane, ack)
        if holds:
            self._held[directive["jobId"]] = (lane, result)
        else:
            await self._send(lane, result)

    async def _send(self, lane: int, reply: dict[str, Any]) -> None:
        text = json.dumps(reply)
        self._reply_bytes.append(len(text))
        message_id = f"{reply['type']}/{reply['jobId']}/{reply['stepId']}/{reply['attempt_no']}"
        async with self._alone[lane]:
            await self._senders[lane].send_messages(
                ServiceBusMessage(text, content_type="application/json", message_id=message_id)
            )

    async def obey(self) -> None:
        """Obeys commands until stdin ends."""
        lines = asyncio.StreamReader()
        await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
        while line := (await lines.readline()).decode():
            command, *words = line.split()
            if command == "finish":
                await self._send(*self._held.pop(words[0]))
            else:
                print(json.dumps({"directives": self._directives, "reply_bytes": self._reply_bytes}), flush=True)
                self._directives, self._reply_bytes = [], []


def replies(directive: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns the ACK and the RESULT of a step that succeeded."""
    attempt = {
        **{name: directive[name] for name in ("jobId", "stepId", "tenant_id", "attempt_no", "lease_id")},
        "timestamp": datetime.now(UTC).isoformat(),
        "correlation_id": directive.get("correlation_id"),
    }
    result_ref = {"uri": directive["workspace_ref"]["uri"] + "result.json"}
    return [{**attempt, "type": "ACK"}, {**attempt, "type": "RESULT", "status": "SUCCEEDED", "result_ref": result_ref}]


async def _main(connection: str, steps: Sequence[str], prefix: str | None = None) -> None:
    client = ServiceBusClient.from_connection_string(connection, socket_timeout=_SOCKET_TIMEOUT_S)
    async with client, asyncio.TaskGroup() as group:
        if prefix is None:
            answering = _Answering([client.get_topic_sender(f"global-bus-replies-p{lane}") for lane in LANES])
        else:
            answering = _Answering([client.get_queue_sender(f"{prefix}-replies")])
        for lane in LANES if prefix is None else range(1):
            for step in steps:
                name = step.lstrip("!")
                if prefix is None:
                    receiver = client.get_subscription_receiver(f"global-bus-p{lane}", name)
                else:
                    receiver = client.get_queue_receiver(f"{prefix}-{name}")
                group.create_task(answering.serve(receiver, lane, holds=step.startswith("!")))
        print("ready", flush=True)
        await answering.obey()
        raise SystemExit


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1], sys.argv[2].split(","), *sys.argv[3:]))
