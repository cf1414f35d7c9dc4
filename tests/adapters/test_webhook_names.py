"""The sender of webhooks: the targets of a URL's name or address, and their resolution (R86)."""

from __future__ import annotations

import asyncio
import gc
import socket
import ssl
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from servicebus_emulator.tls import make_certificate
from shared.access.webhook_addresses import AddressPolicy, Target
from shared.adapters.webhook_http import LOOKUPS_OF_TENANT, CheckedResolver, HttpWebhookSender
from shared.webhook_refusals import HookUrlRefused
from tests.access.test_webhook_addresses import REFUSED
from tests.adapters.webhook_sockets import BODY, LONG_S, LOOPBACK, OK, answering, leading_to, listening


async def test_a_host_may_be_spelled_in_any_way() -> None:
    """A URL that was accepted can be posted to, also with capitals; path and query stay unchanged."""
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
    # no process listens there, even on a machine without IPv6
    assert (await sender.post(f"http://[0:0:0:0:0:0:0:1]:{port}/", {}, BODY)).error == "CONNECT"
    assert seen == [b"POST /A%2Fb?c=%7e HTTP/1.1\r\n"]


async def test_a_name_without_an_address() -> None:
    """None, and one that no resolver accepts."""

    async def fails(host: str, port: int) -> list[str]:
        raise socket.gaierror(socket.EAI_NONAME, "unknown")

    for lookup in (fails, leading_to()):
        answer = await HttpWebhookSender(lookup=lookup).post("https://hooks.example.com/", {}, BODY)
        assert (answer.status, answer.error) == (None, "NO_ADDRESS")


async def test_the_certificate_has_to_name_the_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One for another name, and one that is not trusted, end the try before a byte of it is sent."""
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


@pytest.mark.parametrize("address", REFUSED)
async def test_a_name_that_leads_to_an_inner_address_is_refused(address: str) -> None:
    """Alone, and next to a public one; no connection is tried, and the error does not reveal the name."""
    for found in ([address], ["1.1.1.1", address]):
        sender = HttpWebhookSender(lookup=leading_to(*found))
        answer = await sender.post("https://hooks.example.com/", {}, BODY)
        assert (answer.status, answer.error) == (None, "NO_ADDRESS")


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1", "2130706433", "[::1]", "[::ffff:169.254.169.254]"])
async def test_a_literal_is_refused_at_each_post(host: str) -> None:
    """aiohttp resolves no literals, so the resolver does not check them."""
    sender = HttpWebhookSender(lookup=leading_to("1.1.1.1"))
    with pytest.raises(HookUrlRefused):
        sender.check(f"https://{host}/", tenant="")
    assert (await sender.post(f"https://{host}/", {}, BODY)).error == "ADDRESS_REFUSED"


async def test_the_connection_goes_to_what_was_checked() -> None:
    """A second, different DNS response is never requested; the next try resolves again."""
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
            # no process listens at 443, or none speaks TLS there
            reached = await sender.post("https://receiver.test/", {}, BODY, tenant="acme")
            assert reached.error not in ("ADDRESS_REFUSED", "NO_ADDRESS")
            assert (await sender.post("https://receiver.test/", {}, BODY, tenant=tenant)).error == "NO_ADDRESS"


async def test_a_resolver_answers_for_its_target_only() -> None:
    """Any other host gets nothing."""
    resolver = CheckedResolver(AddressPolicy(), Target("https", "a.example", 443), leading_to("1.1.1.1"))
    assert [each["host"] for each in await resolver.resolve("a.example", 443)] == ["1.1.1.1"]
    for host, port in (("b.example", 443), ("a.example", 80)):
        with pytest.raises(HookUrlRefused):
            await resolver.resolve(host, port)


async def test_names_that_never_resolve_hold_up_webhooks_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """More of them than the loop has threads: other name resolution continues."""
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
    """They use a part of the threads, also after their tries, and another tenant's names resolve meanwhile.

    When their threads are free, the tenant's own names resolve too; then nothing is remembered.
    """
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
