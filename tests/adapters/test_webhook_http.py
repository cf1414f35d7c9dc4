"""The sender of webhooks against real sockets: what receivers do, and where a name may lead (R86)."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import gzip
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from servicebus_emulator.tls import make_certificate
from shared.access.webhook_addresses import AddressPolicy, Target
from shared.adapters.webhook_http import (
    LOOKUPS_OF_TENANT,
    MAX_RECEIVED_BYTES,
    CheckedResolver,
    HttpWebhookSender,
    Lookup,
)
from shared.core.webhooks.webhooks import Answer
from shared.refusals import HookUrlRefused
from tests.access.test_webhook_addresses import REFUSED

Receiver = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
BODY = b'{"specversion":"1.0"}'
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
#: far above what the machine needs, far below the test's own limit
LONG_S = 60.0
LOOPBACK = frozenset({"127.0.0.1:*", "receiver.test:*"})


@asynccontextmanager
async def listening(receive: Receiver, *, tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    """A server on loopback that reads a request's head and body, then does as `receive` says; its port."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            if b"Content-Length" in head:
                await reader.readexactly(len(BODY))
            await receive(reader, writer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


def answering(content: bytes) -> Receiver:
    async def receive(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(content)
        await writer.drain()

    return receive


def dripping(content: bytes, first: bytes = b"") -> Receiver:
    """A byte each 20 ms, without end."""

    async def receive(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(first)
        while True:
            for byte in content:
                writer.write(bytes([byte]))
                await writer.drain()
                await asyncio.sleep(0.02)

    return receive


async def never(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(LONG_S)


async def resetting(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    # no lingering: the peer gets a reset
    connection = writer.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
    writer.transport.abort()


def leading_to(*addresses: str) -> Lookup:
    async def lookup(host: str, port: int) -> list[str]:
        return list(addresses)

    return lookup


async def posted(receive: Receiver, *, try_s: float = LONG_S, path: str = "/hook") -> Answer:
    async with listening(receive) as port:
        sender = HttpWebhookSender(LOOPBACK, try_s=try_s)
        return await sender.post(f"http://127.0.0.1:{port}{path}", {"webhook-id": "1"}, BODY)


async def test_a_post_has_its_headers_its_body_and_its_address_as_they_are() -> None:
    """Nothing of the query is encoded anew: it may be signed."""
    seen: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await reader.readuntil(b"\r\n\r\n") + await reader.readexactly(len(BODY)))
        writer.write(OK)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    headers = {"webhook-id": "job_1:1:0:hook_1", "Content-Type": "application/cloudevents+json"}
    answer = await HttpWebhookSender(LOOPBACK).post(
        f"http://127.0.0.1:{port}/a%2Fb?sig=x%2By%3D&b=%20&c=%7e%2f", headers, BODY
    )
    server.close()
    head, body = seen[0].split(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    assert lines[0] == "POST /a%2Fb?sig=x%2By%3D&b=%20&c=%7e%2f HTTP/1.1"
    assert {"webhook-id: job_1:1:0:hook_1", "Content-Type: application/cloudevents+json"} <= set(lines)
    assert {"User-Agent: lucius", "Accept-Encoding: identity", f"Host: 127.0.0.1:{port}"} <= set(lines)
    assert body == BODY
    assert (answer.status, answer.error, answer.is_success) == (200, None, True)


async def test_a_host_may_be_spelled_in_any_way() -> None:
    """What was taken when it was named is reached at each post, also with capitals; path and query stay as they are."""
    seen: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await reader.readline())
        writer.write(OK)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    sender = HttpWebhookSender(frozenset({"receiver.test:*", "[::1]:*"}), lookup=leading_to("127.0.0.1"))
    sender.check(url := f"HTTP://Receiver.TEST:{port}/A%2Fb?c=%7e", tenant="")
    assert (await sender.post(url, {}, BODY)).status == 200
    server.close()
    # nobody listens there, on a machine without IPv6 neither
    assert (await sender.post(f"http://[0:0:0:0:0:0:0:1]:{port}/", {}, BODY)).error == "CONNECT"
    assert seen == [b"POST /A%2Fb?c=%7e HTTP/1.1\r\n"]


@pytest.mark.parametrize("status", [204, 301, 302, 307, 308, 400, 410, 429, 500, 503])
async def test_a_status_is_the_answer_and_no_redirect_is_followed(status: int) -> None:
    """Wherever `Location` leads."""
    connections = 0

    async def receive(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        head = f"HTTP/1.1 {status} X\r\nLocation: /elsewhere\r\nSet-Cookie: a=b\r\n"
        writer.write(head.encode() + b"Content-Length: 0\r\n\r\n")

    answer = await posted(receive)
    assert (answer.status, answer.error, connections) == (status, None, 1)


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("120", timedelta(minutes=2)),
        ("Tue, 27 Jan 2026 10:01:00 GMT", timedelta(minutes=1)),
        ("Tue, 27 Jan 2026 09:00:00 GMT", timedelta()),
        ("999999999", timedelta(days=1)),
        ("99999999999999999999", None),
        ("-5", None),
        ("soon", None),
    ],
)
async def test_retry_after_is_read_in_both_forms_and_bounded(text: str, after: timedelta | None) -> None:
    """Seconds, or an instant beside the answer's own; a day at most."""
    head = f"HTTP/1.1 503 X\r\nDate: Tue, 27 Jan 2026 10:00:00 GMT\r\nRetry-After: {text}\r\nContent-Length: 0\r\n\r\n"
    assert (await posted(answering(head.encode()))).retry_after == after


@pytest.mark.parametrize(
    ("receive", "error"),
    [
        (never, "TIMEOUT"),
        # the whole of a try has one limit, however steadily bytes come
        (dripping(b"X-Y: z\r\n", b"HTTP/1.1 200 OK\r\n"), "TIMEOUT"),
    ],
)
async def test_a_receiver_that_takes_too_long_is_given_up(receive: Receiver, error: str) -> None:
    """Also one that sends byte by byte."""
    answer = await posted(receive, try_s=0.3)
    assert (answer.status, answer.error) == (None, error)
    assert answer.took_ms >= 250


async def test_a_body_that_never_ends_holds_nobody_longer_than_a_try() -> None:
    """The status has come: it is the answer."""
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 4000\r\n\r\n"
    assert (await posted(dripping(b"x", head), try_s=5)).status == 200


@pytest.mark.parametrize(
    ("receive", "error"),
    [
        (resetting, "RESET"),
        (answering(b""), "RESET"),
        (answering(b"SSH-2.0-OpenSSH_9.2\r\n"), "NOT_HTTP"),
        (answering(b"HTTP/1.1 200 OK\r\nX: " + b"y" * 100_000 + b"\r\n\r\n"), "NOT_HTTP"),
    ],
)
async def test_what_is_no_answer_has_a_class(receive: Receiver, error: str) -> None:
    """Nothing of what the receiver sent stands in the answer."""
    answer = await posted(receive)
    assert (answer.status, answer.error) == (None, error)


async def test_a_huge_answer_is_not_read_to_its_end() -> None:
    """The receiver cannot send more than the sockets' buffers hold: 64 MiB were never taken."""
    rest = 64 * 1024 * 1024
    ended = asyncio.Event()

    async def receive(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal rest
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % rest)
        try:
            while rest:
                writer.write(b"x" * 65_536)
                await writer.drain()
                rest -= 65_536
        finally:
            ended.set()

    async with listening(receive) as port:
        answer = await HttpWebhookSender(LOOPBACK).post(f"http://127.0.0.1:{port}/", {}, BODY)
        await asyncio.wait_for(ended.wait(), LONG_S)
    assert answer.status == 200
    assert rest > 32 * 1024 * 1024


@pytest.mark.parametrize(
    ("first", "piece", "status", "error"),
    [
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n", None, "NOT_HTTP"),
        (b"", b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n", None, "NOT_HTTP"),
        # the status has come: it is the answer
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;", b"a" * 64, 200, None),
        (b"HTTP/1.1 200 OK\r\n", b"A: b\r\n", None, "NOT_HTTP"),
    ],
    ids=["100", "103", "extensions of a chunk", "headers"],
)
async def test_a_flood_is_cut_off(first: bytes, piece: bytes, status: int | None, error: str | None) -> None:
    """The receiver cannot send more than the sockets' buffers hold: 64 MiB were never taken."""
    block = piece * (65_536 // len(piece))
    rest = 64 * 1024 * 1024
    ended = asyncio.Event()

    async def receive(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal rest
        writer.write(first)
        try:
            while rest > 0:
                writer.write(block)
                await writer.drain()
                rest -= len(block)
        finally:
            ended.set()

    async with listening(receive) as port:
        answer = await HttpWebhookSender(LOOPBACK, try_s=LONG_S).post(f"http://127.0.0.1:{port}/", {}, BODY)
        await asyncio.wait_for(ended.wait(), LONG_S)
    assert (answer.status, answer.error) == (status, error)
    assert rest > 32 * 1024 * 1024


@pytest.mark.parametrize(
    ("size", "status", "error"),
    [(MAX_RECEIVED_BYTES, 200, None), (MAX_RECEIVED_BYTES + 1, None, "NOT_HTTP")],
)
async def test_headers_have_a_bound_together(size: int, status: int | None, error: str | None) -> None:
    """Also headers that the parser takes one by one; the byte after the bound is not parsed."""
    start, end = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n", b"\r\n"
    left = size - len(start) - len(end)
    sizes = [4096] * (left // 4096 - 1)
    sizes.append(left - sum(sizes))
    content = start + b"".join(b"X: " + b"y" * (each - 5) + b"\r\n" for each in sizes) + end
    assert len(content) == size
    answer = await posted(answering(content))
    assert (answer.status, answer.error) == (status, error)


async def test_interim_answers_are_passed_over() -> None:
    """A few of them, before the status that counts."""
    interim = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </style.css>; rel=preload\r\n\r\n"
    answer = await posted(answering(interim + interim + OK))
    assert (answer.status, answer.error, answer.is_success) == (200, None, True)


async def test_a_compressed_answer_is_not_unpacked() -> None:
    """16 MiB in 16 KiB stay 16 KiB, of which 4 are read."""
    bomb = gzip.compress(bytes(16 * 1024 * 1024))
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(bomb)
    assert (await posted(answering(head + bomb))).status == 200


async def test_nobody_listens() -> None:
    """A port at which nothing listens, and which nobody else can take."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        answer = await HttpWebhookSender(LOOPBACK).post(f"http://127.0.0.1:{held.getsockname()[1]}/", {}, BODY)
    assert (answer.status, answer.error) == (None, "CONNECT")


async def test_a_name_without_an_address() -> None:
    """None, and one that no resolver takes."""

    async def fails(host: str, port: int) -> list[str]:
        raise socket.gaierror(socket.EAI_NONAME, "unknown")

    for lookup in (fails, leading_to()):
        answer = await HttpWebhookSender(lookup=lookup).post("https://hooks.example.com/", {}, BODY)
        assert (answer.status, answer.error) == (None, "NO_ADDRESS")


async def test_the_certificate_has_to_name_the_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of another name, and one that nobody vouches for, end the try before a byte of it is sent."""
    certificate, key = make_certificate(tmp_path)
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(certificate, key)
    sender = HttpWebhookSender(LOOPBACK | {"localhost:*"}, lookup=leading_to("127.0.0.1"))
    async with listening(answering(OK), tls=serving) as port:
        assert (await sender.post(f"https://localhost:{port}/", {}, BODY)).error == "TLS"
        trusting = ssl.create_default_context(cafile=certificate)
        monkeypatch.setattr(aiohttp.connector, "_SSL_CONTEXT_VERIFIED", trusting)
        assert (await sender.post(f"https://localhost:{port}/", {}, BODY)).status == 200
        assert (await sender.post(f"https://receiver.test:{port}/", {}, BODY)).error == "TLS"


async def test_neither_a_proxy_nor_a_netrc_of_the_machine_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy would connect to what nobody checked."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    assert (await posted(answering(OK))).status == 200


@pytest.mark.parametrize("address", REFUSED)
async def test_a_name_that_leads_to_an_inner_address_is_refused(address: str) -> None:
    """By itself, and beside a good one; no connection is tried, and nobody learns that there is such a name."""
    for found in ([address], ["1.1.1.1", address]):
        sender = HttpWebhookSender(lookup=leading_to(*found))
        answer = await sender.post("https://hooks.example.com/", {}, BODY)
        assert (answer.status, answer.error) == (None, "NO_ADDRESS")


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1", "2130706433", "[::1]", "[::ffff:169.254.169.254]"])
async def test_a_literal_is_refused_at_each_post(host: str) -> None:
    """aiohttp asks no resolver for literals: they never come so far."""
    sender = HttpWebhookSender(lookup=leading_to("1.1.1.1"))
    with pytest.raises(HookUrlRefused):
        sender.check(f"https://{host}/", tenant="")
    assert (await sender.post(f"https://{host}/", {}, BODY)).error == "ADDRESS_REFUSED"


async def test_the_connection_goes_to_what_was_checked() -> None:
    """A second answer of the name, which is another, is never asked for; a third try asks again."""
    answers = [["127.0.0.1"], ["169.254.169.254"], ["127.0.0.1"]]
    asked: list[str] = []

    async def rebinding(host: str, port: int) -> list[str]:
        asked.append(host)
        return answers[len(asked) - 1]

    async with listening(answering(OK)) as port:
        sender = HttpWebhookSender(frozenset({"receiver.test:*"}), lookup=rebinding)
        url = f"http://receiver.test:{port}/"
        assert (await sender.post(url, {}, BODY)).status == 200
        assert asked == ["receiver.test"]
        assert (await sender.post(url, {}, BODY)).error == "NO_ADDRESS"
        assert (await sender.post(url, {}, BODY)).status == 200
    assert len(asked) == 3


async def test_a_host_that_is_listed_for_one_tenant() -> None:
    """Each try of another tenant is refused: by the address, and where a public name leads to it."""
    async with listening(answering(OK)) as port:
        sender = HttpWebhookSender(
            frozenset({f"acme@127.0.0.1:{port}", "acme@receiver.test:443"}), lookup=leading_to("127.0.0.1")
        )
        url = f"http://127.0.0.1:{port}/"
        sender.check(url, tenant="acme")
        assert (await sender.post(url, {}, BODY, tenant="acme")).status == 200
        for tenant in ("", "other", "acm", "acme@127.0.0.1", "=platform"):
            with pytest.raises(HookUrlRefused):
                sender.check(url, tenant=tenant)
            assert (await sender.post(url, {}, BODY, tenant=tenant)).error == "ADDRESS_REFUSED"
            # nobody listens at 443, or speaks TLS there
            reached = await sender.post("https://receiver.test/", {}, BODY, tenant="acme")
            assert reached.error not in ("ADDRESS_REFUSED", "NO_ADDRESS")
            assert (await sender.post("https://receiver.test/", {}, BODY, tenant=tenant)).error == "NO_ADDRESS"


async def test_a_resolver_answers_for_its_target_only() -> None:
    """Whatever else asks it gets nothing."""
    resolver = CheckedResolver(AddressPolicy(), Target("https", "a.example", 443), leading_to("1.1.1.1"))
    assert [each["host"] for each in await resolver.resolve("a.example", 443)] == ["1.1.1.1"]
    for host, port in (("b.example", 443), ("a.example", 80)):
        with pytest.raises(HookUrlRefused):
            await resolver.resolve(host, port)


async def test_names_that_never_resolve_hold_up_webhooks_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """More of them than the loop has threads: what else resolves names there goes on."""
    released = threading.Event()
    real = socket.getaddrinfo

    def resolve(host: str, *args: Any, **options: Any) -> Any:
        if host == "slow.example.com":
            released.wait(LONG_S)
            raise socket.gaierror(socket.EAI_AGAIN, "no answer")
        return real(host, *args, **options)

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    try:
        sender = HttpWebhookSender(try_s=0.3)
        posts = [sender.post("https://slow.example.com/", {}, BODY) for _ in range(40)]
        assert {(each.status, each.error) for each in await asyncio.gather(*posts)} == {(None, "TIMEOUT")}
        async with asyncio.timeout(LONG_S / 2):
            assert await asyncio.get_running_loop().getaddrinfo("localhost", 80)
    finally:
        released.set()


async def test_names_of_one_tenant_that_never_resolve(monkeypatch: pytest.MonkeyPatch) -> None:
    """They hold a part of the threads, also when their tries are over, and another tenant's names resolve meanwhile.
    When their threads are free, the tenant's own do, too; then nobody is remembered."""
    released, lock, running, most = threading.Event(), threading.Lock(), 0, 0

    def resolve(host: str, *_args: Any, **_options: Any) -> Any:
        nonlocal running, most
        if host == "slow.example.com":
            with lock:
                running += 1
                most = max(most, running)
            released.wait(LONG_S)
            with lock:
                running -= 1
        raise socket.gaierror(socket.EAI_NONAME, "no such name")

    async def settled(look: Callable[[], bool]) -> None:
        async with asyncio.timeout(LONG_S / 2):
            while not look():  # noqa: ASYNC110  # threads say nothing when they begin
                await asyncio.sleep(0.02)

    async def error(name: str, tenant: str) -> str | None:
        return (await sender.post(f"https://{name}.example.com/", {}, BODY, tenant=tenant)).error

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    sender = HttpWebhookSender(try_s=LONG_S)
    try:
        slow = [asyncio.create_task(error("slow", "a")) for _ in range(40)]
        await settled(lambda: running == LOOKUPS_OF_TENANT)
        assert await error("quick", "b") == "NO_ADDRESS"
        for each in slow:
            each.cancel()
        await asyncio.gather(*slow, return_exceptions=True)
        # their tracebacks remember the tenant
        del slow, each
        own = asyncio.create_task(error("quick", "a"))
        assert await error("quick", "b") == "NO_ADDRESS"
        assert not own.done()
    finally:
        released.set()
    assert await own == "NO_ADDRESS"
    assert most == LOOKUPS_OF_TENANT
    await settled(lambda: gc.collect() >= 0 and not sender._lookups._places)


async def test_the_machine_resolves_names() -> None:
    """The real resolver under the real class: `localhost` leads to loopback, and is refused or listed."""
    async with listening(answering(OK)) as port:
        url = f"http://localhost:{port}/"
        assert (await HttpWebhookSender(frozenset({"localhost:*"})).post(url, {}, BODY)).status == 200
        assert (await HttpWebhookSender().post(url, {}, BODY)).error == "ADDRESS_REFUSED"
