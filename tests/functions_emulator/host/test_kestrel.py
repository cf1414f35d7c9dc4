"""Requests byte for byte, as Kestrel accepts them.

The sources named here are below src/Servers/Kestrel/Core/src of dotnet/aspnetcore.
"""

from __future__ import annotations

import socket
from urllib.parse import urlsplit

import pytest

from tests.functions_emulator.host.process import SOON_S, Host, exchange


def request(line: str, *headers: str) -> bytes:
    return "\r\n".join((line, "Host: localhost", *headers, "", "")).encode()


@pytest.mark.parametrize(
    ("line", "status", "text"),
    [
        ("POST /v1/things/7%3Acancel HTTP/1.1", 200, "cancel 7"),
        ("GET /%76%31/thing%73/7 HTTP/1.1", 200, "get 7"),
        ("GET /x/../v1/./things/7 HTTP/1.1", 200, "get 7"),
        ("GET /x/%2e%2E/v1/things/7 HTTP/1.1", 200, "get 7"),
        ("GET /v1/things/x/.. HTTP/1.1", 404, ""),
        ("GET /v1/things/a%2fb HTTP/1.1", 200, "get a%2fb"),
        ("GET /v1/things/%C3%A9%FF%E2%28 HTTP/1.1", 200, "get \u00e9%FF%E2("),
        ("GET /v1/things/a%0Ab HTTP/1.1", 200, "get a\nb"),
        ("GET /v1/things/%00 HTTP/1.1", 400, ""),
        ("GET /v1/things/\u00e9 HTTP/1.1", 400, ""),
        ("GET //v1/things/7 HTTP/1.1", 404, ""),
    ],
)
def test_a_path_is_decoded_before_it_is_routed(host: Host, line: str, status: int, text: str) -> None:
    """Escapes but `%2F` and bad UTF-8 are decoded, then dot segments are removed; NUL and raw bytes are refused
    (Internal/Http/PathNormalizer.cs, Http1Connection.cs `ParseTarget`, src/Shared/UrlDecoder/UrlDecoder.cs)."""
    assert exchange(host, request(line)) == (status, text.encode())


def test_a_method_may_be_in_lower_case(host: Host) -> None:
    """Also the second one of a connection, and one after an empty line; routes compare methods without regard to case.

    Internal/Http/Http1Connection.cs, `ParseRequest`, skips empty lines between requests.
    """
    line = "get /sync?name=bob HTTP/1.1"
    assert exchange(host, request(line), request(line)) == (200, b"hello bob")
    assert exchange(host, b"\r\n" + request(line)) == (200, b"hello bob")


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (request(f"GET /sync?x={'y' * 8_100} HTTP/1.1"), 200),
        (request(f"GET /sync?x={'y' * 8_170} HTTP/1.1"), 414),
        (request(f"GET /sync?x={'y' * 20_000} HTTP/1.1"), 414),
        (request("GET /sync HTTP/1.1", f"X-Long: {'y' * 20_000}"), 200),
        (request("GET /sync HTTP/1.1", f"X-Long: {'y' * 40_000}"), 431),
        (request("GET /sync HTTP/1.1", *(f"X-{number}: {'y' * 9_000}" for number in range(4))), 431),
        (request("GET /sync HTTP/1.1", *(f"X-{number}: y" for number in range(99))), 200),
        (request("GET /sync HTTP/1.1", *(f"X-{number}: y" for number in range(100))), 431),
        (b"GET /sync HTTP/1.1\r\nHost: localhost\r\nX-Name: Andr\xc3\xa9\r\n\r\n", 200),
        (b"GET /sync HTTP/1.1\r\nHost: localhost\r\nX-Name: Andr\xe9\r\n\r\n", 400),
        (b"GET /sync HTTP/1.1\r\n\r\n", 400),
        (b"GET /sync\r\n\r\n", 400),
    ],
)
def test_what_kestrel_takes(host: Host, sent: bytes, status: int) -> None:
    """8 KiB of request line (414), 32 KiB of headers and a hundred of them (431), UTF-8 values, one Host (400).

    KestrelServerLimits.cs, KestrelBadHttpRequestException.cs, Internal/Http/Http1Connection.cs. A refusal has no body.
    """
    actual, body = exchange(host, sent)
    assert actual == status
    assert status == 200 or body == b""


@pytest.mark.parametrize("length", [8_170, 20_000])
def test_the_status_line_of_a_refusal(host: Host, length: int) -> None:
    """The version and the text are Kestrel's, whether the request was parsed or not (ReasonPhrases.cs)."""
    address = urlsplit(host.url)
    with socket.create_connection((str(address.hostname), address.port or 80), timeout=SOON_S) as connection:
        connection.sendall(request(f"GET /sync?x={'y' * length} HTTP/1.1"))
        assert connection.makefile("rb").readline() == b"HTTP/1.1 414 URI Too Long\r\n"


def test_http_1_0_without_a_host_is_500(host: Host) -> None:
    """Kestrel accepts it; then the trigger's binding fails to make the URL.

    azure-webjobs-sdk-extensions, src/WebJobs.Extensions.Http/HttpTriggerAttributeBindingProvider.cs, `ToInvokeString`.
    """
    assert exchange(host, b"GET /sync HTTP/1.0\r\n\r\n") == (500, b"")
    assert exchange(host, request("GET /sync HTTP/1.0")) == (200, b"hello nobody")
