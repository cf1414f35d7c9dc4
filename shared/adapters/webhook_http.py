"""Posts webhooks over HTTP, only to hosts that callers named (R86).

The sender resolves the name once, checks each IP address, and connects to a checked IP address. So a second DNS
response has no effect. The sender uses only the status, `Retry-After` and `Date` of the endpoint's response.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import ssl
import time
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Any
from weakref import WeakValueDictionary

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.client_proto import ResponseHandler
from yarl import URL

from shared.access.webhook_addresses import AddressPolicy, Target, spelled
from shared.core.webhooks.webhooks import Answer
from shared.webhook_refusals import HookUrlRefused

#: maximum seconds of one try, from the resolution of the name to the end of the response
TRY_S = 10.0
#: maximum bytes of a response's body that are read
MAX_ANSWER_BYTES = 4096
#: maximum bytes of one try: interim responses, headers, chunk extensions, body
MAX_RECEIVED_BYTES = 32 * 1024
#: maximum accepted `Retry-After`
MAX_RETRY_AFTER = timedelta(days=1)
_HEADERS = {"User-Agent": "lucius", "Accept-Encoding": "identity"}
_SECONDS = re.compile(r"[0-9]{1,9}")

#: function that returns the addresses of a name as text; raises OSError if it has none
Lookup = Callable[[str, int], Awaitable[list[str]]]

#: a name whose servers never respond holds a thread for longer than a try. So these threads are separate from the
#: loop's, which resolve the stores
_LOOKUPS = ThreadPoolExecutor(64, thread_name_prefix="webhook-lookup")
#: maximum threads for the names of one tenant
LOOKUPS_OF_TENANT = 8


class SystemLookups:
    """Lookups of names by the machine's resolver.

    The names of one tenant occupy at most `LOOKUPS_OF_TENANT` (8) of the 64 threads, even if the names never resolve.
    """

    def __init__(self) -> None:
        #: limits of names with a running or waiting lookup, by tenant
        self._places: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    async def of(self, tenant: str, host: str, port: int) -> list[str]:
        """Resolves a name to its IP addresses, as text. Raises OSError if the name has no IP address."""
        if (places := self._places.get(tenant)) is None:
            places = self._places[tenant] = asyncio.Semaphore(LOOKUPS_OF_TENANT)
        await places.acquire()
        loop = asyncio.get_running_loop()
        lookup = partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)

        def leave(_: Future[Any]) -> None:
            # the loop may be closed
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(places.release)

        found = _LOOKUPS.submit(lookup)
        # released when the thread is free or the lookup never began, not at the end of the try
        found.add_done_callback(leave)
        try:
            return [str(address[0]) for *_, address in await asyncio.wrap_future(found)]
        except UnicodeError as error:
            raise OSError(str(error)) from None


class CheckedResolver(AbstractResolver):
    """A resolver of the host of one target, which refuses the host if any of its IP addresses is refused."""

    def __init__(self, policy: AddressPolicy, target: Target, lookup: Lookup) -> None:
        self._policy = policy
        self._target = target
        self._lookup = lookup

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Resolves the target's host. Raises HookUrlRefused for another host or port. Raises OSError if the host has no
        IP address, or an IP address that is refused.

        Each OSError becomes the same error `NO_ADDRESS` of a delivery, so that the error does not reveal names in the
        app's own network.
        """
        if (host, port) != (self._target.host, self._target.port):
            raise HookUrlRefused("must be a URL in which all parsers find the same host and port")
        addresses = await self._lookup(host, port)
        if not addresses or not all(self._policy.lets(self._target, each) for each in addresses):
            raise OSError(f"{host} has no allowed address")
        return [
            ResolveResult(
                hostname=host,
                host=each,
                port=port,
                family=socket.AF_INET6 if ":" in each else socket.AF_INET,
                proto=socket.IPPROTO_TCP,
                flags=socket.AI_NUMERICHOST,
            )
            for each in addresses
        ]

    async def close(self) -> None:
        """Does nothing, since there is no connection to close."""


class Allowance:
    """The number of bytes that the endpoint can still send in one try."""

    def __init__(self) -> None:
        self.left = MAX_RECEIVED_BYTES

    @property
    def is_spent(self) -> bool:
        return self.left < 0


class BoundedHandler(ResponseHandler):
    """A parser that reads a response up to its allowance, then cuts the connection.

    aiohttp reads any number of interim (1xx) responses before the final response, each at the cost of a Python loop.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, allowance: Allowance) -> None:
        super().__init__(loop)
        self._allowance = allowance

    def data_received(self, data: bytes) -> None:
        allowed = self._allowance
        if not allowed.is_spent:
            super().data_received(data[: allowed.left])
        allowed.left -= len(data)
        if allowed.is_spent and self.transport is not None:
            self.transport.abort()


class HttpWebhookSender:
    """`WebhookSender` over aiohttp."""

    def __init__(
        self, listed: frozenset[str] = frozenset(), *, lookup: Lookup | None = None, try_s: float = TRY_S
    ) -> None:
        """Sets the hosts to allow in addition to public hosts. `listed` has the entries of `LUCIUS_WEBHOOK_HOSTS`.

        `lookup` is the resolver of names. Default: the machine's resolver.
        """
        self._policy = AddressPolicy(listed)
        self._lookup = lookup
        self._lookups = SystemLookups()
        self._timeout = aiohttp.ClientTimeout(total=try_s)

    def check(self, url: str, *, tenant: str) -> None:
        """Checks the URL without resolving its host. Raises HookUrlRefused."""
        self._policy.of(tenant).target(url)

    async def post(self, url: str, headers: Mapping[str, str], body: bytes, *, tenant: str = "") -> Answer:
        """Sends one request and returns the result. For a failure, the result has only the class of the error."""
        began = time.monotonic()
        status: int | None = None
        error: str | None = None
        retry_after: timedelta | None = None
        allowance = Allowance()
        try:
            policy = self._policy.of(tenant)
            target = policy.target(url)
            # the URL stays exactly as given, since a query may be signed; only its host is normalised
            address = URL(url, encoded=True)
            address = address.with_host(spelled(address.raw_host or ""))
            if (address.scheme, address.raw_host, address.port) != (target.scheme, target.host, target.port):
                raise HookUrlRefused("must be a URL in which all parsers find the same host and port")
            async with self._session(policy, target, tenant, allowance) as session:
                posting = session.post(address, data=body, headers={**_HEADERS, **headers}, allow_redirects=False)
                async with posting as response:
                    status = response.status
                    retry_after = _retry_after(response.headers)
                    # the status decides, even if the rest of the response fails
                    with contextlib.suppress(aiohttp.ClientError, OSError, EOFError):
                        await response.content.readexactly(MAX_ANSWER_BYTES)
                    response.close()
        except HookUrlRefused:
            error = "ADDRESS_REFUSED"
        except (aiohttp.ClientError, OSError, ValueError) as wrong:
            error = "NOT_HTTP" if allowance.is_spent else _class_of(wrong)
        return Answer(
            status=status,
            error=error if status is None else None,
            retry_after=retry_after,
            took_ms=int((time.monotonic() - began) * 1000),
        )

    def _session(
        self, policy: AddressPolicy, target: Target, tenant: str, allowance: Allowance
    ) -> aiohttp.ClientSession:
        """Makes the session of one try. Sessions share no connection and no cookie, and use no proxy of the machine."""
        lookup = self._lookup or partial(self._lookups.of, tenant)
        connector = aiohttp.TCPConnector(
            resolver=CheckedResolver(policy, target, lookup), use_dns_cache=False, force_close=True
        )

        def handler() -> ResponseHandler:
            return BoundedHandler(asyncio.get_running_loop(), allowance)

        # aiohttp has no parameter for the protocol of a connection
        connector._factory = partial(handler)
        return aiohttp.ClientSession(
            connector=connector,
            timeout=self._timeout,
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
            auto_decompress=False,
        )


def _class_of(wrong: Exception) -> str:
    match wrong:
        case TimeoutError():
            return "TIMEOUT"
        case aiohttp.ClientConnectorDNSError():
            return "NO_ADDRESS"
        case aiohttp.ClientSSLError() | ssl.SSLError():
            return "TLS"
        case aiohttp.ClientConnectorError():
            return "CONNECT"
        case aiohttp.ClientConnectionError() | OSError():
            return "RESET"
        case _:
            return "NOT_HTTP"


def _retry_after(headers: Mapping[str, str]) -> timedelta | None:
    """Returns the requested wait, at most `MAX_RETRY_AFTER`, from a number of seconds or from a time relative to the
    response's `Date` (RFC 9110, 10.2.3). Returns None for any other header.
    """
    text = headers.get("Retry-After", "").strip()
    if _SECONDS.fullmatch(text):
        return min(timedelta(seconds=int(text)), MAX_RETRY_AFTER)
    try:
        after = parsedate_to_datetime(text) - parsedate_to_datetime(headers.get("Date", ""))
    except (ValueError, TypeError, OverflowError):
        return None
    return min(max(after, timedelta()), MAX_RETRY_AFTER)
