"""The sender of webhooks against real sockets, with the faults of endpoints (R86)."""

from __future__ import annotations

import asyncio
import gzip
import socket
from datetime import timedelta

import pytest

from shared.adapters.webhook_http import MAX_RECEIVED_BYTES, HttpWebhookSender
from shared.core.webhooks.webhooks import Answer
from tests.adapters.webhook_sockets import BODY, LONG_S, LOOPBACK, OK, Receiver, answering, listening


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


async def posted(receive: Receiver, *, try_s: float = LONG_S, path: str = "/hook") -> Answer:
    async with listening(receive) as port:
        sender = HttpWebhookSender(LOOPBACK, try_s=try_s)
        return await sender.post(f"http://127.0.0.1:{port}{path}", {"webhook-id": "1"}, BODY)


async def test_a_post_has_its_headers_its_body_and_its_address_as_they_are() -> None:
    """No part of the query is encoded again, since it may be signed."""
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
        # a try has one time limit, for any rate of bytes
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
    """The response has nothing of the endpoint's data."""
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
    """Also headers that the parser reads one by one; the byte after the bound is not parsed."""
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
    """At a port without a listener, which no other process can take."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        answer = await HttpWebhookSender(LOOPBACK).post(f"http://127.0.0.1:{held.getsockname()[1]}/", {}, BODY)
    assert (answer.status, answer.error) == (None, "CONNECT")


async def test_neither_a_proxy_nor_a_netrc_of_the_machine_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy would connect to an unchecked address."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    assert (await posted(answering(OK))).status == 200
