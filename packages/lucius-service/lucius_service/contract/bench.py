"""The side of LUCIUS in a verification: sends directives, receives replies by the bus and by HTTP, reads blobs."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import shlex
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

from aiohttp import web
from azure.core.exceptions import AzureError
from azure.servicebus import ServiceBusMessage, ServiceBusReceivedMessage
from azure.servicebus.aio import ServiceBusClient
from azure.servicebus.exceptions import ServiceBusError

from lucius_service.contract.blobs import Blobs
from lucius_service.contract.lane import Lane
from lucius_service.contract.replies import Json, Replies, Reply

#: maximum lock of a message in Service Bus; messages of a killed service are delivered again after it
LONGEST_LOCK_S = 300.0
_POLL_S = 0.05


class NotRun(Exception):
    """The verification or the load test cannot run, since the bus, the blob account, the service or the API cannot be
    used. The message is one line.
    """


@dataclass(frozen=True)
class Options:
    """The options of a verification, or of a load of directives."""

    step_type: str
    bus: str = field(repr=False)
    blob: str = field(repr=False)
    #: `input_ref` and `payload` of the directives; other fields have no effect
    sample: Json
    #: fields for work that takes more than twice `cadence_s`; if None, checks that need it are skipped
    slow: Json | None = None
    #: command that starts the service; if None, checks that stop the service are skipped
    command: str | None = None
    #: URL of this program for a service that replies over HTTP
    callback: str | None = None
    subscription: str = ""
    lane: int = 0
    reply_prefix: str = "global-bus-replies-p"
    reply_subscription: str = "lucius-invoker"
    #: seconds to wait for an ACK
    ack_s: float = 30.0
    #: seconds to wait for a RESULT, also of a service that has just been started
    result_s: float = 120.0
    #: seconds to wait for the RESULT of a directive that is delivered again after its lock
    again_s: float = LONGEST_LOCK_S + 30.0
    #: expected seconds between two heartbeats; a check fails after twice this time
    cadence_s: float = 30.0
    #: seconds in which nothing more may arrive
    settle_s: float = 2.0
    #: seconds for a service to stop
    stop_s: float = 60.0


class Bench:
    """A verification, as an asynchronous context manager. Entering the context raises NotRun if the bus, the blob
    account or `callback` cannot be used.
    """

    def __init__(self, options: Options) -> None:
        self.options = options
        #: id of this verification, part of the names of its tenant and its folder of results
        self.run_id = secrets.token_hex(4)
        self.tenant = f"verify-{self.run_id}"
        self.replies = Replies()
        self._stack = AsyncExitStack()
        self._client: ServiceBusClient
        self._lanes: dict[int, Lane] = {}
        #: number of times each attempt was sent, by job, attempt and lease
        self._sent: Counter[tuple[Any, ...]] = Counter()
        self._blobs: Blobs
        self._process: subprocess.Popen[bytes] | None = None

    async def __aenter__(self) -> Bench:
        try:
            await self._connect()
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        self.kill()
        await self._stack.aclose()

    async def _connect(self) -> None:
        options = self.options
        try:
            self._blobs = Blobs(options.blob)
            self._stack.callback(self._blobs.close)
            await asyncio.to_thread(self._blobs.make_containers)
        except (AzureError, ValueError) as error:
            raise NotRun(f"cannot use the blob account of --blob ({_line(error)}); check --blob") from None
        try:
            self._client = ServiceBusClient.from_connection_string(options.bus, retry_total=0)
            await self._stack.enter_async_context(self._client)
            await self._open(options.lane)
        except _NO_LANE as error:
            raise NotRun(
                f"cannot use the topics and subscriptions of --bus ({_line(error)}); check --bus and --subscription"
            ) from None
        if options.callback is not None:
            await self._serve_callbacks(options.callback)

    @property
    def subscription(self) -> str:
        return self.options.subscription or self.options.step_type.lower()

    async def look_around(self) -> None:
        """Opens a lane with an adjacent number if the bus has such a lane, and records the existing blobs.

        Raises NotRun if the blobs of the account cannot be listed.
        """
        for number in (self.options.lane + 1, self.options.lane - 1):
            if self.other_lane is None and number >= 0:
                with suppress(*_NO_LANE):
                    await self._open(number)
        try:
            await asyncio.to_thread(self._blobs.remember)
        except AzureError as error:
            raise NotRun(f"could not list the blobs of the account ({_line(error)})") from None

    async def _open(self, number: int) -> None:
        self._lanes[number] = await Lane.open(
            self._stack,
            self._client,
            number,
            subscription=self.subscription,
            reply_topic=f"{self.options.reply_prefix}{number}",
            reply_subscription=self.options.reply_subscription,
            take=self.replies.take,
        )

    @property
    def other_lane(self) -> int | None:
        """Returns the number of the second open lane, or None if only one lane is open."""
        return next((number for number in self._lanes if number != self.options.lane), None)

    # Replies

    async def _serve_callbacks(self, url: str) -> None:
        """Serves the callbacks of LUCIUS on the host and port of `url`. Raises NotRun."""

        async def take(request: web.Request) -> web.Response:
            self.replies.take(await request.read())
            return web.json_response(
                {"outcome": "APPLIED", "why": None, "job_status": "IN_PROGRESS", "token": "verify"}
            )

        app = web.Application()
        app.router.add_post("/{path:.*}", take)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        self._stack.push_async_callback(runner.cleanup)
        parts = urlsplit(url)
        try:
            await web.TCPSite(runner, parts.hostname, parts.port).start()
        except (OSError, ValueError) as error:
            raise NotRun(f"cannot serve --callback {url} ({_line(error)}); name a free port of this machine") from None

    def of(self, directive: Json, *kinds: str) -> list[Reply]:
        """Returns the replies so far to the directive's job on the directive's lane or over HTTP, in order.

        `kinds` limits the types of replies. Default: ACK, HEARTBEAT and RESULT.
        """
        return [
            each
            for each in self.anywhere(directive)
            if each.lane in (None, directive["lane"]) and each.body.get("type") in (kinds or _ALL)
        ]

    def anywhere(self, directive: Json) -> list[Reply]:
        """Returns the replies to a job so far, on any lane."""
        return [each for each in self.replies if each.body.get("jobId") == directive["jobId"]]

    def of_type(self, kind: str) -> list[Reply]:
        """Returns the replies of a type so far, to all jobs."""
        return [each for each in self.replies if each.body.get("type") == kind]

    def of_attempts(self) -> list[list[Reply]]:
        """Returns the replies so far to each attempt that was sent once, in order."""
        attempts: dict[tuple[Any, ...], list[Reply]] = {key: [] for key, times in self._sent.items() if times == 1}
        for each in self.replies:
            if each.body.get("type") in _ALL:
                attempts.get(_attempt(each.body), []).append(each)
        return list(attempts.values())

    async def reply(
        self, directive: Json, kind: str, *, attempt: int | None = None, within_s: float = 0
    ) -> Reply | None:
        """Returns the first reply of this type and attempt, or None if no such reply arrives within `within_s` seconds.

        If `attempt` is None, the reply can be to any attempt. If `within_s` is 0, the limit is `ack_s` for ACK and
        `result_s` for other types.
        """
        wait_s = within_s or (self.options.ack_s if kind == "ACK" else self.options.result_s)

        def found() -> Reply | None:
            for each in self.of(directive, kind):
                if attempt is None or each.body.get("attempt_no") == attempt:
                    return each
            return None

        await self.until(lambda: found() is not None, wait_s)
        return found()

    async def until(self, condition: Callable[[], bool], within_s: float) -> bool:
        deadline = time.monotonic() + within_s
        while not condition() and time.monotonic() < deadline:  # noqa: ASYNC110 - processes and the bus are polled
            await asyncio.sleep(_POLL_S)
        return condition()

    async def settle(self) -> None:
        """Waits `settle_s` seconds, so that replies that break the contract arrive before a check."""
        await asyncio.sleep(self.options.settle_s)

    # Directives

    def directive(self, *, slow: bool = False, **changes: Any) -> Json:
        """Returns a directive for a new job, from the sample. If `slow` is true, uses the slow sample."""
        options = self.options
        sample = (options.slow if slow else options.sample) or {}
        job = changes.pop("jobId", str(uuid4()))
        attempt = changes.get("attempt_no", 1)
        root = self._blobs.url
        trace = f"00-{secrets.token_hex(16)}-{secrets.token_hex(8)}-01"
        callbacks = {}
        if options.callback is not None:
            base = options.callback.rstrip("/")
            urls = {kind: f"{base}/v1/callbacks/{kind}" for kind in ("ack", "result", "heartbeat")}
            callbacks = {"callback_urls": {**urls, "token": "verify"}}
        return {
            "type": "DIRECTIVE",
            "jobId": job,
            "tenant_id": self.tenant,
            "stepId": options.step_type.lower(),
            "protocol_id": "verify",
            "step_type": options.step_type,
            "attempt_no": attempt,
            "lease_id": str(uuid4()),
            "input_ref": sample.get("input_ref"),
            "workspace_ref": {
                "uri": f"{root}/workspace/verify/{self.tenant}/{job}/{options.step_type}/{attempt}/",
            },
            "output_ref": {"uri": f"{root}/results/{self.run_id}"},
            "final": False,
            "payload": sample.get("payload"),
            "mode": "DEFAULT",
            "lane": options.lane,
            "routing_key_used": self.tenant,
            "correlation_id": f"verify-{job}",
            "traceparent": trace,
            **callbacks,
            **changes,
        }

    async def send(self, directive: Json | bytes, message_id: str = "", time_to_live_s: float | None = None) -> None:
        """Sends the directive as a new message, so that the topic does not drop the message as a duplicate."""
        body = directive if isinstance(directive, bytes) else json.dumps(directive).encode()
        fields = directive if isinstance(directive, dict) else {}
        lane = fields.get("lane", self.options.lane)
        properties = {
            "type": "DIRECTIVE",
            "mode": "DEFAULT",
            "tenant_id": self.tenant,
            "step_type": self.options.step_type,
            "job_id": str(fields.get("jobId", "")),
            "step_id": str(fields.get("stepId", "")),
            "lane": lane,
        }
        message = ServiceBusMessage(
            body,
            message_id=message_id or uuid4().hex,
            content_type="application/json",
            application_properties=properties,  # type: ignore[arg-type]
            time_to_live=None if time_to_live_s is None else timedelta(seconds=time_to_live_s),
        )
        if fields:
            self._sent[_attempt(fields)] += 1
        await self._lanes[lane].send(message)

    async def dead_letter(self, message_id: str, within_s: float) -> ServiceBusReceivedMessage | None:
        """Waits at most `within_s` seconds for the dead letter of a message. Returns the dead letter, or None."""
        deadline = time.monotonic() + within_s
        while True:
            for message in await self._lanes[self.options.lane].messages(dead=True):
                if message.message_id == message_id:
                    return message
            if time.monotonic() > deadline:
                return None
            await asyncio.sleep(0.2)

    async def is_settled(self, directive: Json, within_s: float) -> bool:
        """Returns True if all messages of the job leave the subscription within `within_s` seconds."""
        deadline = time.monotonic() + within_s
        job, lane = directive["jobId"].encode(), self._lanes[directive["lane"]]
        while any(job in b"".join(message.body) for message in await lane.messages(dead=False)):
            if time.monotonic() > deadline:
                return False
            await asyncio.sleep(0.2)
        return True

    # Blobs

    async def content(self, uri: str) -> bytes | None:
        """Returns the content of a blob, or None if the blob does not exist in the account."""
        return await asyncio.to_thread(self._blobs.content, uri)

    async def written(self) -> list[str]:
        """Returns `container/name` of the blobs that were written since the start."""
        return await asyncio.to_thread(self._blobs.written)

    async def sees_all_blobs(self) -> bool:
        """Returns True if `written` searches all containers of the account, not only the containers of the contract."""
        return await asyncio.to_thread(lambda: self._blobs.lists_containers)

    # The process of the service

    def start(self) -> None:
        """Starts the service by `--command`, if given, and does not wait. Raises NotRun if the command cannot start."""
        command = self.options.command
        if command is None:
            return
        try:
            self._process = subprocess.Popen(
                shlex.split(command), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, start_new_session=True
            )
        except (OSError, ValueError) as error:
            raise NotRun(f"--command {command}: {_line(error)}") from None

    def kill(self) -> None:
        """Kills the process group of the service (SIGKILL), and waits until the process has ended."""
        if self._process is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    async def stop(self) -> int | None:
        """Stops the process (SIGTERM). Returns the exit code, or None if the process did not end within `stop_s`."""
        assert self._process is not None
        process = self._process
        process.terminate()
        ended = await self.until(lambda: process.poll() is not None, self.options.stop_s)
        code = process.returncode if ended else None
        self.kill()
        return code

    @property
    def has_ended(self) -> bool:
        """Returns True if this verification started the service, and the service has ended by itself."""
        return self._process is not None and self._process.poll() is not None


_ALL = ("ACK", "HEARTBEAT", "RESULT")
_NO_LANE = (ServiceBusError, ValueError, OSError, TimeoutError)


def _attempt(body: Json) -> tuple[Any, ...]:
    return tuple(str(body.get(name)) for name in ("jobId", "attempt_no", "lease_id"))


def _line(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
