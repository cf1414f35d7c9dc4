"""Sends replies over HTTP to the `callback_urls` of a directive, with the same guarantees as over the bus.

The response of LUCIUS can tell the service to stop the attempt. Replies use the bus if a directive has no
`callback_urls`.
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

#: seconds for a callback, which takes milliseconds; the front end of Azure gives up after 230 s
REQUEST_TIMEOUT_S = 30
MAX_ANSWER_BYTES = 64 * 1024
#: statuses after which the same reply may be accepted later
_LATER = (408, 425, 429)
#: statuses in which the job continues
_GOES_ON = ("QUEUED", "IN_PROGRESS", "PAUSING", "PAUSED")


class HttpReplySender:
    """A sender that posts replies with the attempt's token. A response can have a new token, which the next reply
    uses.
    """

    def __init__(self, session: aiohttp.ClientSession, bus: ReplySender) -> None:
        self._session = session
        self._bus = bus
        #: token by the key of the attempt, until its RESULT
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
            # a redirect would send the token elsewhere
            async with self._session.post(
                url,
                json=reply,
                headers=headers,
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(total=REQUEST_TIMEOUT_S),
            ) as response:
                status, body = response.status, await response.content.read(MAX_ANSWER_BYTES)
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            log.warning(
                "Could not send %s of job %s; the service retries each reply except a HEARTBEAT: %s",
                *(kind, directive.jobId, type(error).__name__),
            )
            return Sent(False)
        if status >= 500 or status in _LATER:
            log.warning(
                "Could not send %s of job %s; the service retries each reply except a HEARTBEAT: HTTP status %d",
                *(kind, directive.jobId, status),
            )
            return Sent(False)
        if status != 200:
            # permanent: the token has expired or is for another attempt, or the reply is malformed
            log.warning(
                "LUCIUS refused %s of job %s, so the attempt stops: HTTP status %d %s",
                *(kind, directive.jobId, status, _code(body)),
            )
            return Sent(True, FailedRetry(CANCELLED, f"LUCIUS refused the {kind} of the attempt ({status})"))
        return Sent(True, None if kind == "RESULT" else self._standing(directive, body))

    def _standing(self, directive: Directive, body: bytes) -> StepFailed | None:
        """Returns the reason to stop the attempt, or None if the attempt continues, or if the response does not have
        the attempt's state. Records a new token.
        """
        answer = _object(body)
        if isinstance(token := answer.get("token"), str) and token:
            self._tokens[directive.key] = token
        status = answer.get("job_status")
        if isinstance(status, str) and status not in _GOES_ON:
            return FailedFinal(CANCELLED, f"the job is {status}")
        if status is not None and not token:
            return FailedRetry(CANCELLED, f"the attempt has ended ({answer.get('why')})")
        return None


def _object(body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _code(body: bytes) -> str:
    """Returns the code of a problem (RFC 9457) for the log."""
    return str(_object(body).get("code", ""))[:64]
