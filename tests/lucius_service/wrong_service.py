"""A service on the kit that breaks the rules of the checks of `lucius service verify` that its arguments name."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from asyncio import unix_events
from collections.abc import Callable
from typing import Any

from azure.servicebus.aio import ServiceBusReceiver

from lucius_service import attempts, replies, results
from lucius_service.attempts import Attempt, Attempts
from lucius_service.directive import Directive
from lucius_service.errors import StepFailed
from lucius_service.program import run
from lucius_service.replies import BusReplySender, Sent
from lucius_service.results import ResultStore
from lucius_service.step import Outcome, Task
from tests.lucius_service.probe_service import ProbeStep

Reply = dict[str, Any]
#: seconds after a RESULT of the next heartbeat, if heartbeats do not end: more than `settle_s` of the tests
BEATS_LATER_S = 1.0


class WrongStep(ProbeStep):
    step_type = "WRONG"


def in_place_of(owner: Any, name: str) -> Callable[[Callable[..., Any]], None]:
    """Puts a function in the place of one of the kit or the SDK; it gets that one as its first argument."""
    real = getattr(owner, name)

    def put(wrong: Callable[..., Any]) -> None:
        setattr(owner, name, lambda *arguments, **named: wrong(real, *arguments, **named))

    return put


def change_replies(change: Callable[[Directive, Reply], Reply]) -> None:
    @in_place_of(BusReplySender, "send")
    async def send(real: Any, sender: BusReplySender, directive: Directive, reply: Reply) -> Sent:
        sent: Sent = await real(sender, directive, change(directive, reply))
        return sent


def identity() -> None:
    change_replies(lambda _, reply: reply | {"tenant_id": "another"})


def trace() -> None:
    change_replies(lambda _, reply: reply | {"correlation_id": "another"})


def artifacts() -> None:
    change_replies(lambda _, reply: reply | ({"digests": {"result_ref": "sha256:0"}} if "digests" in reply else {}))


def one_result() -> None:
    @in_place_of(BusReplySender, "send")
    async def send(real: Any, sender: BusReplySender, directive: Directive, reply: Reply) -> Sent:
        sent: Sent = await real(sender, directive, reply)
        if reply["type"] == "RESULT":
            await real(sender, directive, reply)
        return sent


def heartbeats_end() -> None:
    beats = set()

    @in_place_of(BusReplySender, "send")
    async def send(real: Any, sender: BusReplySender, directive: Directive, reply: Reply) -> Sent:
        async def go_on() -> None:
            for _ in range(60):
                await asyncio.sleep(BEATS_LATER_S)
                await real(sender, directive, replies.heartbeat(directive, 1, "done"))

        sent: Sent = await real(sender, directive, reply)
        if reply["type"] == "RESULT":
            beats.add(asyncio.create_task(go_on()))
        return sent


def lanes() -> None:
    @in_place_of(BusReplySender, "send")
    async def send(real: Any, sender: BusReplySender, directive: Directive, reply: Reply) -> Sent:
        sent: Sent = await real(sender, directive.model_copy(update={"lane": 0}), reply)
        return sent


def heartbeats() -> None:
    @in_place_of(BusReplySender, "send")
    async def send(real: Any, sender: BusReplySender, directive: Directive, reply: Reply) -> Sent:
        return Sent(True) if reply["type"] == "HEARTBEAT" else await real(sender, directive, reply)


def acknowledges() -> None:
    @in_place_of(BusReplySender, "send")
    async def send(real: Any, sender: BusReplySender, directive: Directive, reply: Reply) -> Sent:
        if reply["type"] == "RESULT":
            await real(sender, directive, replies.ack(directive))
        return await real(sender, directive, reply) if reply["type"] == "RESULT" else Sent(True)


def duplicate_later() -> None:
    own = set()

    @in_place_of(ResultStore, "find")
    def find(real: Any, store: ResultStore, directive: Directive) -> Reply | None:
        return None if directive.key in own else real(store, directive)

    @in_place_of(ResultStore, "keep")
    def keep(real: Any, store: ResultStore, directive: Directive, result: Reply) -> Reply:
        kept: Reply = result if directive.key in own else real(store, directive, result)
        own.add(directive.key)
        return kept


def duplicate_after_restart() -> None:
    kept: dict[str, Reply] = {}
    in_place_of(ResultStore, "find")(lambda _, store, directive: kept.get(directive.key))
    in_place_of(ResultStore, "keep")(lambda _, store, directive, result: kept.setdefault(directive.key, result))


def duplicate_at_once() -> None:
    @in_place_of(Attempts, "take")
    async def take(real: Any, self: Attempts, directive: Directive) -> Attempt:
        self._in_flight.pop(directive.key, None)
        attempt: Attempt = await real(self, directive)
        return attempt

    @in_place_of(ResultStore, "keep")
    def keep(real: Any, store: ResultStore, directive: Directive, result: Reply) -> Reply:
        real(store, directive, result)
        return result


def stale_attempt() -> None:
    in_place_of(Attempts, "_is_stale")(lambda *_: False)


def newer_attempt() -> None:
    @in_place_of(Attempts, "take")
    async def take(real: Any, self: Attempts, directive: Directive) -> Attempt:
        for other in self._in_flight.values():
            if other.directive.jobId == directive.jobId and other.directive.key != directive.key:
                attempt = Attempt(directive)
                attempt.ended.set()
                return attempt
        return await real(self, directive)  # type: ignore[no-any-return]


def drop(reason: str) -> None:
    @in_place_of(ServiceBusReceiver, "dead_letter_message")
    async def dead_letter(real: Any, receiver: ServiceBusReceiver, message: Any, **named: Any) -> None:
        if named["reason"] == reason:
            await receiver.complete_message(message)
        else:
            await real(receiver, message, **named)


def malformed() -> None:
    drop("DirectiveMalformed")


def misrouted() -> None:
    drop("DirectiveMisrouted")


def unknown_fields() -> None:
    @in_place_of(Directive, "model_validate_json")
    def strict(real: Any, body: bytes) -> Directive:
        directive: Directive = real(body)
        # none of these is a directive either
        return (
            Directive.model_validate({}) if any(name.startswith("verify_") for name in json.loads(body)) else directive
        )


def killed() -> None:
    @in_place_of(ServiceBusReceiver, "receive_messages")
    async def receive(real: Any, receiver: ServiceBusReceiver, **named: Any) -> Any:
        messages = await real(receiver, **named)
        for message in messages:
            if b'"step_type": "WRONG"' in (body := b"".join(message.body)) and b'"jobId": null' not in body:
                await receiver.complete_message(message)
        return messages


def drained() -> None:
    in_place_of(unix_events._UnixSelectorEventLoop, "add_signal_handler")(lambda *_: None)
    signal.signal(signal.SIGTERM, lambda *_: os._exit(143))


def final_result() -> None:
    @in_place_of(results, "final_uri")
    def uri(real: Any, directive: Directive, result_ref: str) -> str:
        return str(real(directive, result_ref)).replace(f"/{directive.jobId}/", "/")


def unwritable_output() -> None:
    in_place_of(attempts, "check_places")(lambda *_: None)

    @in_place_of(attempts, "publish_result")
    def publish(real: Any, directive: Directive, result: Reply, workspace: Any) -> Reply:
        try:
            return real(directive, result, workspace)  # type: ignore[no-any-return]
        except StepFailed:
            return result


def places() -> None:
    @in_place_of(WrongStep, "execute")
    def execute(real: Any, step: WrongStep, task: Task) -> Outcome:
        real(step, task)
        folder = task.directive.workspace_ref.uri.rstrip("/").rpartition("/")[0]
        return Outcome(task.workspace.write(f"{folder}/elsewhere", "out.txt", b"done", "text/plain"))


def stray_blobs() -> None:
    @in_place_of(WrongStep, "execute")
    def execute(real: Any, step: WrongStep, task: Task) -> Outcome:
        root = task.directive.workspace_ref.uri.partition("/workspace/")[0]
        task.workspace.write(f"{root}/latest", task.directive.jobId, b"done", "text/plain")
        done: Outcome = real(step, task)
        return done


if __name__ == "__main__":
    for fault in sys.argv[1:]:
        globals()[fault]()
    sys.exit(run("wrong", lambda environ: WrongStep()))
