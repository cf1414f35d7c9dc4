"""A service that kills itself, as SIGKILL does, when an attempt comes to the phase that its argument names."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from lucius_service import attempts, replies
from lucius_service.program import run
from lucius_service.results import ResultStore
from tests.lucius_service.probe_service import ProbeStep

#: in the order of an attempt
PHASES = ("received", "acknowledged", "working", "worked", "copied", "stored", "published")


class KilledStep(ProbeStep):
    step_type = "KILLED"
    result_name = "probe/out.txt"


def die(*_: Any, **__: Any) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


def then_die(real: Callable[..., Any]) -> Callable[..., Any]:
    def call(*arguments: Any, **named: Any) -> Any:
        real(*arguments, **named)
        die()

    return call


def after(kind: str) -> Callable[..., Any]:
    real = replies.publish

    async def publish(sender: Any, directive: Any, reply: dict[str, Any]) -> Any:
        sent = await real(sender, directive, reply)
        if reply["type"] == kind:
            await asyncio.sleep(0)
            die()
        return sent

    return publish


def arm(phase: str) -> None:
    match phase:
        case "received":
            replies.publish = die
        case "acknowledged":
            replies.publish = after("ACK")
        case "working":
            KilledStep.execute = die  # type: ignore[method-assign]
        case "worked":
            attempts.publish_result = die
        case "copied":
            attempts.publish_result = then_die(attempts.publish_result)
        case "stored":
            ResultStore.keep = then_die(ResultStore.keep)  # type: ignore[method-assign]
        case "published":
            replies.publish = after("RESULT")


if __name__ == "__main__":
    arm(sys.argv[1])
    sys.exit(run("killed", lambda environ: KilledStep()))
