"""Replies over HTTP, to the `callback_urls` of a directive: the same guarantees as the bus, with a response.

The answer of LUCIUS says whether the attempt goes on. A directive without `callback_urls` is replied to on the bus.
"""

from __future__ import annotations

import json
import logging
from typing import Any

import aiohttp

from lucius_service import tracing
from lucius_service.directive import Callbacks, Directive
from lucius_service.errors import CANCELLED, FailedFinal, FailedRetry, StepFailed
from lucius_service.replies import ReplySender, Sent

log = logging.getLogger(__name__)

#: a callback takes milliseconds; the front end of Azure gives one up after 230 s
REQUEST_TIMEOUT_S = 30
MAX_ANSWER_BYTES = 64 * 1024
#: the app or something on the way to it may take the same reply later
_LATER = (408, 425, 429)
#: the job goes on in no other status
_GOES_ON = ("QUEUED", "IN_PROGRESS", "PAUSING", "PAUSED")


class HttpReplySender:
    """Posts replies with the attempt's token, and with the new one of each response after that."""

    def __init__(self, session: aiohttp.ClientSession, bus: ReplySender) -> None:
        self._session = session
        self._bus = bus
        #: by the key of the attempt, until its RESULT
        self._tokens: dict[str, str] = {}

    async def send(self, directive: Directive, reply: dict[str, Any]) -> Sent:
        if directive.callback_urls is None:
            return await self._bus.send(directive, reply)
        kind = reply["type"]
        with tracing.publish_span(reply, "callbacks") as (traced, span):
            sent = await self._post(directive, directive.callback_urls, kind, traced)
            if not sent.done:
                tracing.mark_failed(span, "callback")
        if kind == "RESULT" and sent.done:
            self._tokens.pop(directive.key, None)
        return sent

    async def close(self) -> None:
        await self._session.close()
        await self._bus.close()

    async def _post(self, directive: Directive, callbacks: Callbacks, kind: str, reply: dict[str, Any]) -> Sent:
        url = {"ACK": callbacks.ack, "RESULT": callbacks.result, "HEARTBEAT": callbacks.heartbeat}[kind]
        headers = {"Authorization": f"Bearer {self._tokens.get(directive.key, callbacks.token)}"}
        if "traceparent" in reply:
            headers["traceparent"] = reply["traceparent"]
        try:
            # a redirect would carry the token elsewhere
            async with self._session.post(
                url,
                json=reply,
                headers=headers,
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(total=REQUEST_TIMEOUT_S),
            ) as response:
                status, body = response.status, await response.content.read(MAX_ANSWER_BYTES)
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            log.warning("%s of %s not sent: %s", kind, directive.jobId, type(error).__name__)
            return Sent(False)
        if status >= 500 or status in _LATER:
            log.warning("%s of %s not taken: %d", kind, directive.jobId, status)
            return Sent(False)
        if status != 200:
            # the token has expired, the attempt is another's, or the reply is malformed: for good
            log.warning("%s of %s refused: %d %s", kind, directive.jobId, status, _code(body))
            return Sent(True, FailedRetry(CANCELLED, f"LUCIUS refused the {kind} of the attempt ({status})"))
        return Sent(True, None if kind == "RESULT" else self._standing(directive, body))

    def _standing(self, directive: Directive, body: bytes) -> StepFailed | None:
        """Why the attempt need not go on; None: it goes on, or the answer does not say."""
        answer = _object(body)
        if isinstance(token := answer.get("token"), str) and token:
            self._tokens[directive.key] = token
        status = answer.get("job_status")
        if isinstance(status, str) and status not in _GOES_ON:
            return FailedFinal(CANCELLED, f"the job is {status}")
        if status is not None and not token:
            return FailedRetry(CANCELLED, f"the attempt is over ({answer.get('why')})")
        return None


def _object(body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _code(body: bytes) -> str:
    """The code of a problem (RFC 9457), for the log."""
    return str(_object(body).get("code", ""))[:64]
