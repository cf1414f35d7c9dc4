"""Expectations and helper functions of the checks. An expectation raises Wrong if a reply or message differs."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

from lucius_service.contract.bench import LONGEST_LOCK_S, Bench
from lucius_service.contract.replies import Json, Reply

_STATUS = ("SUCCEEDED", "FAILED_RETRY", "FAILED_FINAL")


class Wrong(Exception):
    """The service broke the rule. The message is one line."""


class Skipped(Exception):
    """The rule was not checked. The message is the reason."""


async def result_of(bench: Bench, directive: Json) -> Reply:
    """Returns the RESULT of the directive's attempt. Raises Wrong if the RESULT is invalid or does not arrive."""
    result = await bench.reply(directive, "RESULT", attempt=directive["attempt_no"])
    if result is None:
        ended = "; the service has ended" if bench.has_ended else ""
        raise Wrong(f"no RESULT within {bench.options.result_s:g} s{ended}")
    if result.body.get("status") not in _STATUS:
        raise Wrong(f"status of RESULT is {result.body.get('status')!r}, not one of {', '.join(_STATUS)}")
    return result


def again(bench: Bench) -> str:
    """Describes the wait for a second delivery in seconds. Adds advice if a message lock can last longer."""
    waited_s = bench.options.again_s
    hint = "" if waited_s > LONGEST_LOCK_S else f" (a message lock can last {LONGEST_LOCK_S:g} s; set a longer --wait)"
    return f"{waited_s:g} s{hint}"


async def expect_same_result(bench: Bench, directive: Json) -> None:
    """Raises Wrong if two RESULTs of one attempt differ in more than `traceparent`."""
    await bench.settle()
    # each sending has a span of its own
    bodies = [{k: v for k, v in each.body.items() if k != "traceparent"} for each in bench.of(directive, "RESULT")]
    for other in bodies[1:]:
        for name in {*bodies[0], *other}:
            if bodies[0].get(name) != other.get(name):
                raise Wrong(f"the RESULTs of one attempt differ in {name}; the work was repeated, or a RESULT was lost")


async def expect_dead_letter(bench: Bench, body: Json | bytes, what: str) -> None:
    """Sends a message. Raises Wrong if the service does not dead-letter the message with a reason."""
    message_id = uuid4().hex
    await bench.send(body, message_id)
    dead = await bench.dead_letter(message_id, bench.options.ack_s)
    if dead is None:
        raise Wrong(f"{what} was not dead-lettered within {bench.options.ack_s:g} s")
    if not dead.dead_letter_reason:
        raise Wrong(f"{what} was dead-lettered without a reason")
    if dead.dead_letter_reason == "MaxDeliveryCountExceeded":
        raise Wrong(f"{what} was dead-lettered only after the maximum number of deliveries")


def expect(expected: Any, actual: Any, what: str) -> None:
    """Raises Wrong with both values if the values differ."""
    if expected != actual:
        raise Wrong(f"{what} is {actual!r}, not {expected!r}")


def uri_of(body: Json, name: str) -> str | None:
    """Returns the URI of a reference, which can be an object or a string, or None without a URI."""
    reference = body.get(name)
    uri = reference.get("uri") if isinstance(reference, dict) else reference
    return uri if isinstance(uri, str) and urlsplit(uri).scheme else None


def trace_id(body: Json) -> str | None:
    """Returns the trace id of `traceparent`, or None if `traceparent` is missing or malformed."""
    parts = str(body.get("traceparent") or "").split("-")
    return parts[1] if len(parts) == 4 else None
