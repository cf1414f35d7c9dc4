"""Input of callers and services costs CPU time in proportion to its size (docs/explanation/security.md)."""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from platform_service.embedding.structure import cells
from platform_service.sis.answer_kind import kind_fit
from platform_service.sis.candidates import candidates
from shared.access.references import ReferencePolicy
from shared.access.tenants import TenantRules
from shared.adapters.callers import JwtCallers
from shared.adapters.jwt_keys import JwtKeys
from shared.core.records.strict_json import parse_json
from shared.errors import LuciusError
from shared.operations.jobs.replies.apply import parse_reply
from tests.jobs import envelope, planned, registry, reply
from triggers.http.batch import lines_of

#: for four times as much 4 is linear, 16 quadratic; caches and a busy machine add up to a half to each doubling
LIMIT = 9.0
#: minimum and maximum number of measurements, of which the best counts: other processes only make a call slower
MEASUREMENTS = (5, 40)

Call = Callable[[], object]


def keys(count: int) -> bytes:
    """Returns an object with this number of keys, of which the last occurs twice."""
    return b"{" + b"".join(b'"k%d":1,' % number for number in range(count)) + b'"k%d":2}' % (count - 1)


def parsing(body: bytes) -> Call:
    return lambda: parse_json(body)


def replying(body: bytes) -> Call:
    return lambda: parse_reply(body)


def reply_with(name: str, value: Any) -> bytes:
    body = reply(planned(), "RESULT").model_dump(mode="json", exclude_none=True)
    return json.dumps(body | {name: value}).encode()


def validated(**changes: Any) -> Call:
    return lambda: envelope(**changes)


def payload(request_type: str, **steps: Any) -> Call:
    protocol = registry().find(request_type)
    assert protocol is not None
    return lambda: protocol.payload_errors(steps)


def authorised(header: str) -> Call:
    callers = JwtCallers(
        JwtKeys("http://127.0.0.1:9/", time.monotonic),
        issuer="i",
        audiences=["a"],
        tenants=TenantRules(claim="t"),
        all_tenants_role="r",
    )
    # a header that is no token is refused before anything is awaited
    return lambda: callers.caller(header).send(None)


def allowed(uri: str) -> Call:
    return lambda: ReferencePolicy(frozenset({"https"}), frozenset({"a/b"})).violation(uri)


CASES: dict[str, tuple[Callable[[int], Call], int]] = {
    "a key twice": (lambda size: parsing(keys(size)), 25_000),
    "a key twice in a reply": (lambda size: replying(keys(size)), 10_000),
    "digits": (lambda size: parsing(b"1." + b"1" * size), 50_000),
    "escapes": (lambda size: parsing(b'"' + b"\\u00e4" * size + b'"'), 20_000),
    "an open string": (lambda size: parsing(b'"' + b'\\"' * size), 50_000),
    "lines": (lambda size: lambda: lines_of(b"\n \n" * size), 20_000),
    "labels": (lambda size: validated(labels=dict.fromkeys(map(str, range(size)), 1)), 10_000),
    "dependencies": (lambda size: validated(dependencies=[1] * size), 25_000),
    "callback addresses": (
        lambda size: validated(callback_urls={str(number): "https://a" + ":1" * 900 for number in range(size)}),
        2_000,
    ),
    "an instant": (lambda size: replying(reply_with("timestamp", "2026-01-27T10:00:00." + "1" * size)), 100_000),
    "unknown steps": (lambda size: payload("OCR_EMBEDDING", **dict.fromkeys(map(str, range(size)), 1)), 10_000),
    "wrong questions": (lambda size: payload("SIS", sis={"prompt_set": [1] * size}), 50_000),
    "unknown parameters": (lambda size: payload("SIS", sis=dict.fromkeys(map(str, range(size)), 1)), 10_000),
    "a token": (lambda size: authorised("Bearer " + "a" * size + "=" * size + " " * size + "b"), 50_000),
    "a path": (lambda size: allowed("https://a/" + "../" * size), 20_000),
    "a name without its role": (lambda size: lambda: candidates("A" * size + "A." * size), 1_000),
    "a sum of digits": (lambda size: lambda: kind_fit("How much is it?", "a" + "1" * size), 1_000),
    "a code without a digit": (lambda size: lambda: kind_fit("What is the code?", "a-" * size), 1_000),
    "spaces in a line": (lambda size: lambda: cells("a" + " " * size + "b"), 2_000),
    "a host": (lambda size: allowed("https://" + "a@" * size + "a/b"), 50_000),
}


@pytest.mark.parametrize("name", CASES)
def test_the_time_grows_with_the_size(name: str) -> None:
    """Measured in CPU time, which other processes change little."""
    made, size = CASES[name]
    small, large = made(size), made(4 * size)
    least, most = MEASUREMENTS
    measured: list[tuple[float, float]] = []

    def grows_little() -> bool:
        # less than a millisecond is noise
        return min(long for _, long in measured) < LIMIT * max(min(short for short, _ in measured), 0.001)

    gc.disable()
    try:
        while len(measured) < least or (len(measured) < most and not grows_little()):
            measured.append((_cpu_s(small), _cpu_s(large)))
    finally:
        gc.enable()
    assert grows_little(), measured


def _cpu_s(call: Call) -> float:
    began = time.process_time()
    with suppress(ValueError, LuciusError):
        call()
    return time.process_time() - began


@pytest.mark.parametrize("parse", [parsing, replying])
def test_a_message_repeats_no_long_key(parse: Callable[[bytes], Call]) -> None:
    """The key is in a response, in a log line and in a row."""
    name = b'"' + b"k" * 100_000 + b'"'
    with pytest.raises((ValueError, LuciusError), match="occurs twice") as refused:
        parse(b"{" + name + b":1," + name + b":2}")()
    assert len(str(refused.value)) < 200
