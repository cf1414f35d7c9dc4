"""Rows over HTTP without the SDK, for the calls that every job makes. The calls use less CPU than through the SDK
(R45).

The module uses one pool of connections and the SDK's rules (`azure.core.pipeline.policies.RetryPolicy`) for the number
of tries and for the errors to retry. `LUCIUS_TABLE_TRANSPORT=sdk` uses the SDK instead.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hmac
import json
import re
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from email.utils import formatdate, parsedate_to_datetime
from typing import Any, NamedTuple, Protocol, Unpack
from urllib.parse import quote, urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
from azure.core.credentials import AccessToken, AzureNamedKeyCredential
from azure.core.credentials_async import AsyncTokenCredential
from azure.core.exceptions import AzureError
from yarl import URL

from shared.adapters.tables import wire
from shared.adapters.tables.table import UNSTORABLE, Entity, QueryOptions, RowOperation, naming
from shared.errors import LedgerRefused, LedgerUnavailable, LuciusError
from shared.time_limits import StoreLimits

_VERSION = {"x-ms-version": "2019-02-02", "DataServiceVersion": "3.0", "User-Agent": "lucius"}
#: without metadata, times and 64-bit numbers would be plain text, and rows would have no etag
_READ = {**_VERSION, "Accept": "application/json;odata=minimalmetadata"}
_WRITE = {**_VERSION, "Accept": "application/json"}

#: statuses for another try, with all above 505, of requests that can be repeated if their response is lost
_TRY_AGAIN = frozenset({408, 429, 500, 502, 503, 504})
_REPEATABLE = frozenset({"GET", "PUT", "DELETE"})
#: statuses for another try, of the other requests
_TRY_WRITE_AGAIN = frozenset({500, 503, 504})

_SCOPE = "https://storage.azure.com/.default"
#: seconds before its end at which a token is replaced
_TOKEN_LEFT_S = 300
_TENANT = re.compile(r"authorization_uri=\"?https://[^/]+/([^/\" ,]+)")


class _Answer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: bytes


class _Credential(Protocol):
    async def header(self, method: str, content_type: str, date: str, path: str) -> str:
        """Returns the `Authorization` header of a request. Raises LedgerUnavailable."""

    def renew(self, challenge: str) -> bool:
        """Handles the `WWW-Authenticate` of a refused request. Returns True if the next `Authorization` header will
        differ.
        """


class _AccountKey:
    """The signer of requests with the account's key
    (https://learn.microsoft.com/rest/api/storageservices/authorize-with-shared-key).
    """

    def __init__(self, name: str, key: str) -> None:
        self._name = name
        self._keyed = hmac.new(base64.b64decode(key), digestmod="sha256")

    async def header(self, method: str, content_type: str, date: str, path: str) -> str:
        signed = f"{method}\n\n{content_type}\n{date}\n/{self._name}{path}"
        # `hmac.digest` releases the interpreter lock, which costs more than the digest
        keyed = self._keyed.copy()
        keyed.update(signed.encode())
        return f"SharedKey {self._name}:{base64.b64encode(keyed.digest()).decode()}"

    def renew(self, challenge: str) -> bool:
        return False


class _Token:
    """The bearer token of requests, cached until 300 s before the token expires."""

    def __init__(self, credential: AsyncTokenCredential) -> None:
        self._credential = credential
        self._token: AccessToken | None = None
        self._tenant: str | None = None
        self._fetching = asyncio.Lock()

    async def header(self, method: str, content_type: str, date: str, path: str) -> str:
        async with self._fetching:
            if self._token is None or self._token.expires_on - time.time() < _TOKEN_LEFT_S:
                try:
                    self._token = await self._credential.get_token(_SCOPE, tenant_id=self._tenant)
                except AzureError as error:
                    raise LedgerUnavailable(f"no token for the ledger: {type(error).__name__}") from error
        return f"Bearer {self._token.token}"

    def renew(self, challenge: str) -> bool:
        """Drops the cached token. The next token is of the Entra tenant that `challenge` names. Returns False if
        `challenge` is empty.
        """
        self._token = None
        if (tenant := _TENANT.search(challenge)) is not None:
            self._tenant = tenant[1]
        return bool(challenge)


class DirectAccount:
    """The table endpoint of a storage account, with its connections."""

    def __init__(self, url: str, credential: object, limits: StoreLimits) -> None:
        """Raises ValueError for a credential that is neither an account key nor a source of tokens, and for a token
        over http.

        `azure.core` refuses a token over http too (`BearerTokenCredentialPolicy`).
        """
        self.url = url.rstrip("/")
        parts = urlsplit(self.url)
        self._base, self._path = f"{parts.scheme}://{parts.netloc}", parts.path
        self._limits = limits
        self._timeout = aiohttp.ClientTimeout(sock_connect=limits.connect_s, sock_read=limits.read_s)
        self._credential: _Credential
        if isinstance(credential, AzureNamedKeyCredential):
            self._credential = _AccountKey(*credential.named_key)
        elif isinstance(credential, AsyncTokenCredential):
            if parts.scheme != "https":
                raise ValueError("a token requires an https endpoint")
            self._credential = _Token(credential)
        else:
            raise ValueError(
                "LUCIUS_TABLE_TRANSPORT=direct needs an account key or a credential; use sdk for signed URLs"
            )
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def send(
        self, method: str, path: str, headers: Mapping[str, str], *, query: str = "", body: bytes | None = None
    ) -> _Answer:
        """Sends a request and returns the response. `path` is relative to the account. After status 401, sends the
        request once more if the credential can be renewed. Raises LedgerUnavailable.
        """
        answer = await self._send(method, path, headers, query, body)
        if answer.status == 401 and self._credential.renew(answer.headers.get("WWW-Authenticate", "")):
            answer = await self._send(method, path, headers, query, body)
        return answer

    async def _send(
        self, method: str, path: str, headers: Mapping[str, str], query: str, body: bytes | None
    ) -> _Answer:
        """Sends a request, and sends it again after a transient failure, at most `retries` times. Returns the last
        response. Raises LedgerUnavailable if the last try gets no response.

        Waits as long as `Retry-After` requests, at most `read_s` seconds. Without `Retry-After`, the second try follows
        immediately, and each later try after `backoff_s` seconds. Without a response, only the methods in `_REPEATABLE`
        are tried again.
        """
        path = self._path + path
        url = URL(f"{self._base}{path}?{query}" if query else self._base + path, encoded=True)
        for tried in range(1 + self._limits.retries):
            wait_s = self._limits.backoff_s if tried else 0.0
            try:
                answer = await self._once(method, url, path, headers, body)
            except (aiohttp.ClientError, OSError) as error:
                if method not in _REPEATABLE or tried == self._limits.retries:
                    raise LedgerUnavailable(f"the ledger does not respond: {type(error).__name__}") from error
            else:
                asked_s = _retry_after_s(answer, self._limits.read_s) if answer.status >= 400 else None
                if tried == self._limits.retries or not (asked_s is not None or _is_passing(method, answer.status)):
                    return answer
                wait_s = asked_s or wait_s
            await asyncio.sleep(wait_s)
        raise AssertionError("the last try returns or raises")

    async def _once(self, method: str, url: URL, path: str, headers: Mapping[str, str], body: bytes | None) -> _Answer:
        date = formatdate(usegmt=True)
        authorization = await self._credential.header(method, headers.get("Content-Type", ""), date, path)
        if self._session is None:
            # aiohttp's own `trust_env` starts a thread at every request
            proxy = None if proxy_bypass(url.authority) else getproxies().get(url.scheme)
            self._session = aiohttp.ClientSession(proxy=proxy, cookie_jar=aiohttp.DummyCookieJar())
        async with self._session.request(
            method,
            url,
            data=body,
            headers={**headers, "x-ms-date": date, "Authorization": authorization},
            timeout=self._timeout,
            allow_redirects=False,
        ) as response:
            return _Answer(response.status, response.headers, await response.read())


def _is_passing(method: str, status: int) -> bool:
    if method not in _REPEATABLE:
        return status in _TRY_WRITE_AGAIN
    return status in _TRY_AGAIN or status > 505


def _retry_after_s(answer: _Answer, at_most_s: float) -> float | None:
    """Returns the requested wait in seconds, at most `at_most_s`. Returns None without `Retry-After`, and 0 if
    `Retry-After` is neither a number nor a date.

    A longer wait blocks the request and the tenant's turn.
    """
    asked = answer.headers.get("Retry-After")
    if not asked:
        return None
    for read in (float, _seconds_until):
        with contextlib.suppress(ValueError, OverflowError):
            seconds = read(asked)
            return min(max(seconds, 0.0), at_most_s) if seconds == seconds else 0.0
    return 0.0


def _seconds_until(date: str) -> float:
    return parsedate_to_datetime(date).timestamp() - time.time()


class DirectTable:
    """Implementation of `shared.adapters.tables.table.Table` over Azure Tables."""

    def __init__(self, account: DirectAccount, name: str) -> None:
        self._account = account
        self._name = name

    async def get_entity(self, partition_key: str, row_key: str) -> Entity:
        with _encoding():
            path = wire.path_of(self._name, partition_key, row_key)
        answer = await self._account.send("GET", path, _READ)
        with _understood():
            _expect(200, answer)
            return wire.row_of(json.loads(answer.body))

    async def query_entities(self, query_filter: str, **options: Unpack[QueryOptions]) -> AsyncIterator[Entity]:
        with _encoding():
            asked = {"$filter": wire.filter_of(query_filter, options.get("parameters"))}
        if (select := options.get("select")) is not None:
            asked["$select"] = ",".join(select)
        if (results_per_page := options.get("results_per_page")) is not None:
            asked["$top"] = str(results_per_page)
        while True:
            with _encoding():
                query = "&".join(f"{name}={quote(value, safe='')}" for name, value in asked.items())
            answer = await self._account.send("GET", f"/{self._name}()", _READ, query=query)
            with _understood():
                _expect(200, answer)
                rows = [wire.row_of(each) for each in json.loads(answer.body)["value"]]
            for row in rows:
                yield row
            following = {
                name: answer.headers[header]
                for name in ("NextPartitionKey", "NextRowKey")
                if (header := f"x-ms-continuation-{name}") in answer.headers
            }
            if not following:
                return
            asked |= following

    async def submit_transaction(self, operations: Sequence[RowOperation]) -> list[dict[str, Any]]:
        with _encoding():
            body = wire.transaction_of(self._account.url, self._name, operations)
        headers = {**_WRITE, "Content-Type": wire.TRANSACTION_TYPE}
        answer = await self._account.send("POST", "/$batch", headers, body=body)
        with _understood(), naming(operations):
            _expect(202, answer)
            return wire.metadata_of(answer.headers.get("Content-Type", ""), answer.body)

    async def write(self, operation: RowOperation) -> None:
        verb, row, *options = operation
        headers, body = dict(_WRITE), None
        with _encoding():
            method = wire.method_of(verb, *options)
            path = wire.path_of(self._name, row["PartitionKey"], row["RowKey"])
            if verb != "upsert":
                headers["If-Match"] = wire.if_match(*options)
            if verb != "delete":
                headers["Content-Type"], body = "application/json", wire.json_of(row).encode("ascii")
        answer = await self._account.send(method, path, headers, body=body)
        if verb != "delete" or answer.status != 404:
            with _understood(), naming([operation]):
                _expect(204, answer)


def _expect(status: int, answer: _Answer) -> None:
    if answer.status != status:
        raise wire.error_of(answer.status, answer.body, answer.headers.get("x-ms-error-code"))


@contextlib.contextmanager
def _encoding() -> Iterator[None]:
    """Turns encoding errors into LedgerRefused, for a value that a column cannot have."""
    try:
        yield
    except UNSTORABLE as error:
        # without the text, which may repeat the value
        raise LedgerRefused(f"the ledger cannot store a value: {type(error).__name__}") from error


@contextlib.contextmanager
def _understood() -> Iterator[None]:
    """Turns any error of a malformed response into LedgerUnavailable."""
    try:
        yield
    except LuciusError:
        raise
    except Exception as error:
        raise LedgerUnavailable(f"the ledger sent an invalid response: {type(error).__name__}") from error
