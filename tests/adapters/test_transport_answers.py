"""A store that answers late, wrongly or refuses: both transports make the same of it (R45)."""

from __future__ import annotations

import asyncio
import re
import ssl
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from azure.core.credentials import AccessToken
from azure.core.exceptions import ClientAuthenticationError

from servicebus_emulator.tls import make_certificate
from shared.adapters.tables.account import read_row, transact
from shared.adapters.tables.direct import DirectAccount, DirectTable
from shared.adapters.tables.table import Table, delete_row, replace_row, upsert_row
from shared.errors import AlreadyExists, Conflict, LedgerRefused, LedgerUnavailable, LuciusError
from tests.adapters.transports import CODE, JSON, LIMITS, SILENT, TRANSPORTS, Store, answer, found, outcome, table_at

KEYS = {"PartitionKey": "p", "RowKey": "r"}
CALLS: dict[str, Callable[[Table], Awaitable[object]]] = {
    "a point": lambda table: read_row(table, "p", "r"),
    "a query": lambda table: found(table, "PartitionKey eq @p", p="p"),
    "a transaction": lambda table: transact(table, [("create", KEYS), ("delete", {**KEYS, "RowKey": "s"})]),
    "a merge": lambda table: table.write(upsert_row(KEYS)),
    "a replacement": lambda table: table.write(replace_row(KEYS)),
    "a removal": lambda table: table.write(delete_row("p", "r")),
}


def parts(*each: str) -> bytes:
    """An answer to a transaction."""
    inner = "".join(f"--changesetresponse_1\r\nContent-Type: application/http\r\n\r\n{part}\r\n" for part in each)
    body = (
        "--batchresponse_1\r\nContent-Type: multipart/mixed; boundary=changesetresponse_1\r\n\r\n"
        f"{inner}--changesetresponse_1--\r\n--batchresponse_1--\r\n"
    )
    return answer(202, body, "Content-Type: multipart/mixed; boundary=batchresponse_1\r\n")


TAKEN = 'HTTP/1.1 204 No Content\r\nETag: W/"1"\r\n\r\n'
REMOVED = "HTTP/1.1 204 No Content\r\n\r\n"
HTML = "Content-Type: text/html\r\n"
RETRY = JSON + "Retry-After: 0\r\n"

#: response of the store to each request, and its meaning if it is the same for every call; None: see the SDK
ANSWERS: dict[str, tuple[bytes | None, type[LuciusError] | None]] = {
    "nothing": (None, LedgerUnavailable),
    "an end": (b"", LedgerUnavailable),
    "half a line": (b"HTTP/1.1 20", LedgerUnavailable),
    "no HTTP": (b"220 mail.example.com ESMTP\r\n", LedgerUnavailable),
    "half a body": (answer(200, '{"value":[', length=100), LedgerUnavailable),
    "half a transaction": (answer(202, "--batchresponse_1", length=100), LedgerUnavailable),
    "a page": (answer(200, "<html>Welcome</html>", HTML), LedgerUnavailable),
    "text": (answer(200, "hello"), LedgerUnavailable),
    "no JSON for a transaction": (answer(202, "hello"), LedgerUnavailable),
    "a list": (answer(200, "[1]"), LedgerUnavailable),
    "no rows": (answer(200, '{"value":{"a":1}}'), None),
    "rows of numbers": (answer(200, '{"value":[1,2]}'), None),
    "a wrong instant": (answer(200, '{"value":[{"t":"x","t@odata.type":"Edm.DateTime"}]}'), None),
    "a wrong number": (answer(200, '{"n":"x","n@odata.type":"Edm.Int64"}'), None),
    "no part": (parts(), LedgerUnavailable),
    "one part of two": (parts(TAKEN), LedgerUnavailable),
    "no etag": (parts(REMOVED, REMOVED), LedgerUnavailable),
    "parts of garbage": (parts("garbage", "garbage"), LedgerUnavailable),
    "both taken": (parts(TAKEN, REMOVED), None),
    "a part busy": (parts(f"HTTP/1.1 503 Busy\r\n{JSON}\r\n{CODE}"), LedgerUnavailable),
    "a part too large": (parts(f"HTTP/1.1 413 Large\r\n{JSON}\r\n{CODE}"), None),
    "a part that conflicts": (parts(f"HTTP/1.1 412 Moved\r\n{JSON}\r\n{CODE}"), None),
    "a part not found": (parts("HTTP/1.1 404 Not Found\r\nContent-Type: text/plain\r\n\r\nwhat?"), LedgerUnavailable),
    **{
        f"{status}{how}": (answer(status, body, headers), error)
        for status, error in {
            302: LedgerUnavailable,
            400: LedgerRefused,
            401: LedgerUnavailable,
            403: LedgerUnavailable,
            408: LedgerUnavailable,
            413: LedgerRefused,
            429: LedgerUnavailable,
            500: LedgerUnavailable,
            501: LedgerUnavailable,
            502: LedgerUnavailable,
            503: LedgerUnavailable,
            504: LedgerUnavailable,
            507: LedgerUnavailable,
        }.items()
        for how, body, headers in (("", CODE, JSON), (" of a page", "<html>no</html>", HTML), (", wait", CODE, RETRY))
    },
    "404": (answer(404, CODE), None),
    "404 of a page": (answer(404, "<html>no</html>", HTML), None),
    "409": (answer(409, CODE), AlreadyExists),
    "409 of a page": (answer(409, "<html>no</html>", HTML), LedgerUnavailable),
    "412": (answer(412, CODE), Conflict),
    "412 in XML": (
        answer(
            412, "<m:error xmlns:m='m'><m:code>ConditionNotMet</m:code></m:error>", "Content-Type: application/xml\r\n"
        ),
        Conflict,
    ),
}


async def result_of(name: str, call: str, *answers: bytes | None) -> tuple[object, int]:
    """Returns the outcome, and the number of requests."""
    store = Store(*answers)
    limits = SILENT if None in answers else LIMITS
    async with store.serving() as url, table_at(name, f"{url}/a", limits) as table:
        result = await outcome(CALLS[call](table))
    return result, len(store.heads)


@pytest.mark.parametrize("call", CALLS)
async def test_a_store_that_answers_wrongly_means_the_same(call: str) -> None:
    """Late, partial, malformed or an error: the same result or error after the same number of requests, and only
    LUCIUS's errors.

    A transaction is sent once if its response is lost: it may have been committed.
    """
    turns = asyncio.Semaphore(8)  # so that none waits for its turn as long as its limit

    async def one(name: str, answer: bytes | None) -> tuple[object, int]:
        async with turns:
            return await result_of(name, call, answer)

    direct, sdk = [
        dict(zip(ANSWERS, await asyncio.gather(*(one(name, answer) for answer, _ in ANSWERS.values())), strict=True))
        for name in TRANSPORTS
    ]
    assert direct == sdk
    meant = {what: error for what, (_, error) in ANSWERS.items() if error is not None}
    assert {what: direct[what][0] for what in meant} == meant


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("first", ["503", "500, wait", "429, wait", "502", "an end"])
async def test_a_store_that_comes_back(call: str, first: str) -> None:
    """A repeated request gets the good response, with both transports."""
    good = {
        "a point": answer(200, '{"a":1}'),
        "a query": answer(200, '{"value":[]}'),
        "a transaction": parts(TAKEN, REMOVED),
    }
    answers = (ANSWERS[first][0], good.get(call, answer(204, headers="")))
    direct, sdk = [await result_of(name, call, *answers) for name in TRANSPORTS]
    assert direct == sdk


@pytest.mark.parametrize(
    ("headers", "waits"),
    [
        ("", [LIMITS.backoff_s]),
        ("Retry-After: 7\r\n", [7, 7]),
        ("Retry-After: 0\r\n", [LIMITS.backoff_s]),
        ("Retry-After: Thu, 01 Jan 1970 00:00:00 GMT\r\n", [LIMITS.backoff_s]),
    ],
)
@pytest.mark.parametrize("name", TRANSPORTS)
async def test_waits(name: str, headers: str, waits: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    """The first retry is immediate and the second after a wait, or both at the store's time."""
    slept: list[float] = []

    async def sleep(seconds: float, *_: object) -> None:
        slept.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    for call in ("a point", "a transaction"):
        slept.clear()
        result, requests = await result_of(name, call, answer(503, CODE, JSON + headers))
        assert (result, requests, [seconds for seconds in slept if seconds]) == (LedgerUnavailable, 3, waits)


@pytest.mark.parametrize(
    ("asked", "waits"),
    [
        ("60.5", [60, 60]),
        ("1e9", [60, 60]),
        ("99999999999999999999", [60, 60]),
        ("1e999", [60, 60]),
        ("inf", [60, 60]),
        ("Wed, 21 Oct 2099 07:28:00 GMT", [60, 60]),
        ("-inf", [LIMITS.backoff_s]),
        ("nan", [LIMITS.backoff_s]),
        ("Wed, 21 Oct 99999 07:28:00 GMT", [LIMITS.backoff_s]),
        ("soon", [LIMITS.backoff_s]),
    ],
)
async def test_no_store_asks_for_a_wait_longer_than_an_answer_takes(
    asked: str, waits: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The direct transport waits for at most `read_s`; the SDK for the requested time."""
    slept: list[float] = []

    async def sleep(seconds: float, *_: object) -> None:
        slept.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    result, requests = await result_of("direct", "a point", answer(503, CODE, f"{JSON}Retry-After: {asked}\r\n"))
    assert (result, requests, [seconds for seconds in slept if seconds]) == (LedgerUnavailable, 3, waits)


@pytest.mark.parametrize("name", TRANSPORTS)
async def test_a_proxy_of_the_environment_counts(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The request uses it, unless the environment excepts the store's host."""
    proxy = Store(answer(200, '{"a":1}'))
    async with proxy.serving() as url:
        monkeypatch.setenv("http_proxy", url)
        async with table_at(name, "http://ledger.invalid/a") as table:
            assert await table.get_entity("p", "r") == {"a": 1}
        assert proxy.heads[0].startswith("GET http://ledger.invalid/a/ledger(")
        monkeypatch.setenv("no_proxy", "ledger.invalid")
        async with table_at(name, "http://ledger.invalid/a") as table:
            with pytest.raises(LedgerUnavailable):
                await table.get_entity("p", "r")


class Tokens:
    """A credential that counts; every token lives for an hour, or is over soon."""

    def __init__(self, lives_s: float = 3600) -> None:
        self.asked: list[str | None] = []
        self._lives_s = lives_s

    async def get_token(self, *scopes: str, tenant_id: str | None = None, **_: Any) -> AccessToken:
        assert scopes == ("https://storage.azure.com/.default",)
        self.asked.append(tenant_id)
        await asyncio.sleep(0)
        if tenant_id == "gone":
            raise ClientAuthenticationError("no such tenant")
        return AccessToken(f"token{len(self.asked)}", int(time.time() + self._lives_s))

    async def close(self) -> None: ...

    async def __aenter__(self) -> Tokens:
        return self

    async def __aexit__(self, *_: object) -> None: ...


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return make_certificate(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def tls(certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> ssl.SSLContext:
    """Returns the TLS context of a store whose certificate the transport trusts."""
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(*certificate)
    trusting = ssl.create_default_context(cafile=certificate[0])
    # aiohttp makes its context when it is imported
    monkeypatch.setattr("aiohttp.connector._SSL_CONTEXT_VERIFIED", trusting)
    return serving


def challenge(tenant: str) -> bytes:
    header = f"Bearer authorization_uri=https://login.microsoftonline.com/{tenant}/oauth2/authorize resource_id=x"
    return answer(401, CODE, f"{JSON}WWW-Authenticate: {header}\r\n")


@pytest.mark.parametrize(
    ("lives_s", "answers", "asked", "sent"),
    [
        pytest.param(3600, [answer(200, "{}")], [None], ["token1", "token1", "token1"], id="kept"),
        pytest.param(60, [answer(200, "{}")], [None] * 3, ["token1", "token2", "token3"], id="over soon"),
        pytest.param(
            3600,
            [challenge("t1"), answer(200, "{}")],
            [None, "t1"],
            ["token1", "token2", "token2", "token2"],
            id="of the account's tenant",
        ),
        pytest.param(
            3600, [challenge("t1")], [None, *["t1"] * 3], [f"token{n}" for n in (1, 2, 2, 3, 3, 4)], id="refused again"
        ),
        pytest.param(3600, [challenge("gone")], [None, *["gone"] * 3], ["token1"], id="none to be had"),
        pytest.param(3600, [answer(401, CODE)], [None] * 3, ["token1", "token2", "token3"], id="refused for good"),
    ],
)
async def test_tokens(
    lives_s: float, answers: list[bytes], asked: list[str | None], sent: list[str], tls: ssl.SSLContext
) -> None:
    """One is kept until shortly before its end, and replaced once when it is refused."""
    store, tokens = Store(*answers), Tokens(lives_s)
    async with store.serving(tls) as url:
        account = DirectAccount(f"{url}/a", tokens, LIMITS)
        table = DirectTable(account, "ledger")
        results = [await outcome(table.get_entity("p", "r")) for _ in range(3)]
        await account.close()
    assert (tokens.asked, [re.findall("Bearer (.*)\r", head)[0] for head in store.heads]) == (asked, sent)
    assert results == [{} if answers[-1] == answer(200, "{}") else LedgerUnavailable] * 3


async def test_calls_at_once_share_a_token(tls: ssl.SSLContext) -> None:
    """The first of them fetches it, and the others wait for it."""
    store, tokens = Store(answer(200, "{}")), Tokens()
    async with store.serving(tls) as url:
        account = DirectAccount(f"{url}/a", tokens, LIMITS)
        table = DirectTable(account, "ledger")
        assert await asyncio.gather(*(table.get_entity("p", "r") for _ in range(20))) == [{}] * 20
        await account.close()
    assert (tokens.asked, len(store.heads)) == ([None], 20)


async def test_a_token_is_not_sent_by_http() -> None:
    """Neither transport is made, so that none is fetched."""
    tokens = Tokens()
    for url in ("http://127.0.0.1:1/a", "http://ledger.example.com"):
        with pytest.raises(ValueError, match="a token requires an https endpoint"):
            DirectAccount(url, tokens, LIMITS)
    assert tokens.asked == []
