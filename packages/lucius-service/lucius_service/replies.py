"""ACK, HEARTBEAT and RESULT: their bodies (docs/asyncapi.json), and their publication on the bus."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol
from uuid import uuid4

from azure.servicebus import ServiceBusMessage
from azure.servicebus.aio import ServiceBusClient, ServiceBusSender
from opentelemetry.trace import Span

from lucius_service import tracing
from lucius_service.directive import Directive
from lucius_service.errors import RESULT_TOO_LARGE, FailedFinal, StepFailed
from lucius_service.work import Work

log = logging.getLogger(__name__)

#: pauses between tries to publish a reply; the last one repeats while the bus is unreachable
PUBLISH_PAUSES_S = (0.5, 1, 2, 5, 10)
#: maximum size of a RESULT: a message of Service Bus Standard and a callback have at most 256 KB, including properties
MAX_RESULT_BYTES = 192 * 1024
#: maximum length of a heartbeat's note, which is also the maximum of LUCIUS
MAX_NOTE = 1000


@dataclass(frozen=True)
class Sent:
    """The result of sending a reply."""

    #: `True` if the other side has it or will never accept it; `False`: send it again
    done: bool
    #: reason why the attempt need not continue, if the other side knows; never from the bus
    stop: StepFailed | None = None


class ReplySender(Protocol):
    """A sender of replies, over the bus or over HTTP."""

    async def send(self, directive: Directive, reply: dict[str, Any]) -> Sent:
        """Tries once to send a reply. Returns the result of the try."""

    async def close(self) -> None:
        """Closes the connections."""


async def publish(sender: ReplySender, directive: Directive, reply: dict[str, Any]) -> Sent:
    """Sends a reply. Retries until the receiver accepts or permanently refuses the reply."""
    tries = 0
    while not (sent := await sender.send(directive, reply)).done:
        await asyncio.sleep(PUBLISH_PAUSES_S[min(tries, len(PUBLISH_PAUSES_S) - 1)])
        tries += 1
    return sent


def ack(directive: Directive) -> dict[str, Any]:
    """Returns the ACK, which states that the service has received the directive. The work can start later."""
    return _reply("ACK", directive)


def heartbeat(directive: Directive, progress: float, note: str) -> dict[str, Any]:
    """Returns a HEARTBEAT for an attempt that waits or is in progress. `progress` is from 0 to 1."""
    return _reply("HEARTBEAT", directive) | {"progress": round(progress, 3), "note": note[:MAX_NOTE]}


def succeeded(directive: Directive, work: Work) -> dict[str, Any]:
    """Returns the RESULT of a successful step."""
    optional = {"artifacts": work.artifacts, "input_digests": work.input_digests, "digests": work.digests}
    return _reply("RESULT", directive) | {
        "status": "SUCCEEDED",
        "result_ref": {"uri": work.result_ref},
        "metrics": work.metrics,
        **{name: value for name, value in optional.items() if value},
    }


def failed(directive: Directive, fault: StepFailed) -> dict[str, Any]:
    """Returns the RESULT of a failed step."""
    return _reply("RESULT", directive) | {
        "status": fault.status,
        "error": {"code": fault.code, "message": fault.message},
    }


def check_size(result: dict[str, Any]) -> None:
    """Raises FailedFinal if the RESULT, with its metrics and artifacts, has more than `MAX_RESULT_BYTES`. Raises
    ValueError or TypeError for metrics that are not JSON.
    """
    size = len(_encode(result))
    if size > MAX_RESULT_BYTES:
        what = f"metrics and artifacts make a RESULT of {size} bytes; the limit is {MAX_RESULT_BYTES}"
        raise FailedFinal(RESULT_TOO_LARGE, what)


def without_lease(reply: dict[str, Any], directive: Directive) -> dict[str, Any]:
    """Returns the reply to store, without the lease, so that a reader of the store cannot send replies."""
    return {name: value for name, value in reply.items() if name != "lease_id"} | {
        "lease_digest": directive.lease_digest
    }


def with_lease(stored: object, directive: Directive) -> dict[str, Any]:
    """Returns a stored RESULT, ready to send. Raises ValueError if `stored` is not the RESULT of this attempt."""
    if isinstance(stored, dict):
        own = without_lease(_attempt(directive) | {"type": "RESULT"}, directive)
        if all(stored.get(name) == value for name, value in own.items()):
            rest = {name: value for name, value in stored.items() if name != "lease_digest"}
            return rest | {"lease_id": directive.lease_id}
    raise ValueError("the stored message is not the RESULT of this attempt")


def _attempt(directive: Directive) -> dict[str, Any]:
    return {
        "jobId": directive.jobId,
        "stepId": directive.stepId,
        "tenant_id": directive.tenant_id,
        "attempt_no": directive.attempt_no,
        "lease_id": directive.lease_id,
    }


def _reply(kind: str, directive: Directive) -> dict[str, Any]:
    reply: dict[str, Any] = {
        "type": kind,
        **_attempt(directive),
        "timestamp": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
    }
    if directive.correlation_id is not None:
        reply["correlation_id"] = directive.correlation_id
    return reply


class BusReplySender:
    """A sender of replies to the topic `{prefix}{lane}`. Each lane has its own sender and connection. The SDK
    needs about 0.5 seconds to open a connection.
    """

    def __init__(self, client: ServiceBusClient, prefix: str) -> None:
        self._client = client
        self._prefix = prefix
        self._senders: dict[int, ServiceBusSender] = {}
        # the SDK's sender does not support two sends at the same time
        self._mutexes: dict[int, asyncio.Lock] = {}

    async def send(self, directive: Directive, reply: dict[str, Any]) -> Sent:
        lane = directive.lane
        async with self._mutexes.setdefault(lane, asyncio.Lock()):
            with tracing.publish_span(reply, f"{self._prefix}{lane}") as (traced, span):
                return Sent(await self._send(lane, traced, span))

    async def prepare(self, lanes: Iterable[int]) -> None:
        """Opens the senders of `lanes` one after the other, before their first replies. Skips a sender that fails."""
        for lane in lanes:
            async with self._mutexes.setdefault(lane, asyncio.Lock()):
                try:
                    await self._sender(lane).__aenter__()
                except Exception as error:  # the first reply tries again, and reports the failure
                    log.debug(
                        "Could not open the sender of lane %d; the next reply retries: %s", lane, _one_line(error)
                    )
                    await self._drop(lane)

    def _sender(self, lane: int) -> ServiceBusSender:
        if lane not in self._senders:
            self._senders[lane] = self._client.get_topic_sender(f"{self._prefix}{lane}")
        return self._senders[lane]

    async def _send(self, lane: int, reply: dict[str, Any], span: Span) -> bool:
        try:
            await self._sender(lane).send_messages(_message(reply))
        except Exception as error:
            # any exception, since the SDK raises errors of its inner layers; the next try uses a new sender
            log.warning(
                "Could not publish %s of job %s; the service retries each reply except a HEARTBEAT: %s",
                *(reply["type"], reply["jobId"], _one_line(error)),
            )
            tracing.mark_failed(span, type(error).__name__)
            await self._drop(lane)
            return False
        return True

    async def close(self) -> None:
        # closing a sender takes up to a second
        await asyncio.gather(*(self._drop(lane) for lane in list(self._senders)))

    async def _drop(self, lane: int) -> None:
        sender = self._senders.pop(lane, None)
        if sender is not None:
            try:
                await sender.close()
            except Exception as error:  # the sender is discarded in any case
                log.debug(
                    "Could not close the sender of lane %d; the service uses a new sender: %s", lane, _one_line(error)
                )


def _message(reply: dict[str, Any]) -> ServiceBusMessage:
    return ServiceBusMessage(
        _encode(reply),
        content_type="application/json",
        # new for each send: the topic must not drop a repeated RESULT as a duplicate
        message_id=uuid4().hex,
        correlation_id=reply.get("correlation_id"),
        application_properties={
            "type": reply["type"],
            "job_id": reply["jobId"],
            "tenant_id": reply["tenant_id"],
            **({"traceparent": reply["traceparent"]} if "traceparent" in reply else {}),
        },
    )


def _encode(reply: dict[str, Any]) -> bytes:
    """Encodes the body. Raises ValueError or TypeError for metrics that are not JSON."""
    return json.dumps(reply, ensure_ascii=False, allow_nan=False).encode()


def _one_line(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
