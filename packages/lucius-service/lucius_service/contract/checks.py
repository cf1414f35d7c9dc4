"""What a service must keep, one check a rule. A check raises Wrong, or Skipped where it could not be made.

`FAST` checks are made at once, `SLOW` ones need a sample that works for some seconds, `STOPPED` ones stop the service.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable
from itertools import pairwise
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

from lucius_service.contract.bench import LONGEST_LOCK_S, Bench, Json, Reply

Check = Callable[[Bench], Awaitable[None]]

_IDENTITY = ("jobId", "stepId", "tenant_id", "attempt_no", "lease_id")
_STATUS = ("SUCCEEDED", "FAILED_RETRY", "FAILED_FINAL")


class Wrong(Exception):
    """The service broke the rule; the message is one line."""


class Skipped(Exception):
    """The rule was not put to the test, and why."""


async def identity(bench: Bench) -> None:
    """Every reply has the ids, the tenant, the attempt and the lease of its directive."""
    directive = bench.directive()
    await bench.send(directive)
    await _result(bench, directive)
    for reply in bench.of(directive):
        for name in _IDENTITY:
            _expect(directive[name], reply.body.get(name), f"{reply.body['type']}: {name}")


async def one_result(bench: Bench) -> None:
    """An attempt has one RESULT, SUCCEEDED for the sample, and no reply comes after it."""
    directive = bench.directive()
    await bench.send(directive)
    result = await _result(bench, directive)
    _expect("SUCCEEDED", result.body.get("status"), f"status ({json.dumps(result.body.get('error'))})")
    await bench.settle()
    after = [each.body["type"] for each in bench.of(directive)]
    if after[-1] != "RESULT":
        raise Wrong(f"{after[-1]} came after RESULT")
    _expect(1, after.count("RESULT"), "number of RESULTs")


async def duplicate_at_once(bench: Bench) -> None:
    """A directive that is delivered twice at once is worked on once: every RESULT of it is the same."""
    directive = bench.directive(slow=bench.options.slow is not None)
    await bench.send(directive)
    await bench.send(directive)
    await _result(bench, directive)
    await bench.is_settled(directive, bench.options.result_s)
    await _same_result(bench, directive)


async def duplicate_later(bench: Bench) -> None:
    """A directive that comes again after its RESULT is not worked on again: its RESULT is sent again, as it was."""
    directive = bench.directive()
    await bench.send(directive)
    await _result(bench, directive)
    await bench.is_settled(directive, bench.options.result_s)
    await bench.send(directive)
    if not await bench.until(lambda: len(bench.of(directive, "RESULT")) > 1, bench.options.result_s):
        raise Wrong("no RESULT came again: where the first was lost, the attempt would never end")
    await _same_result(bench, directive)


async def stale_attempt(bench: Bench) -> None:
    """After a newer attempt, an older one of the step is not worked on."""
    newer = bench.directive(attempt_no=2)
    await bench.send(newer)
    await _result(bench, newer)
    older = bench.directive(jobId=newer["jobId"], attempt_no=1)
    await bench.send(older)
    if not await bench.is_settled(older, bench.options.result_s):
        raise Wrong("the older attempt was neither completed nor dead-lettered")
    await bench.settle()
    for reply in bench.of(older, "RESULT"):
        if reply.body.get("attempt_no") == 1 and reply.body.get("status") == "SUCCEEDED":
            raise Wrong("the older attempt was worked on")


async def malformed(bench: Bench) -> None:
    """What is no directive is dead-lettered at once, with a reason."""
    for what, body in (
        ("a body that is not JSON", b"not json"),
        ("a directive without jobId", json.dumps({**bench.directive(), "jobId": None}).encode()),
        ("a JSON list", b"[]"),
    ):
        await _dead_lettered(bench, body, what)


async def misrouted(bench: Bench) -> None:
    """A directive of another step type is dead-lettered at once, with a reason."""
    await _dead_lettered(bench, bench.directive(step_type="VERIFY_OTHER"), "a directive of another step type")


async def unknown_fields(bench: Bench) -> None:
    """Fields that the contract does not name yet are ignored."""
    directive = bench.directive(verify_new_field={"a": [1]}, verify_other=None)
    await bench.send(directive)
    result = await _result(bench, directive)
    _expect("SUCCEEDED", result.body.get("status"), "status of a directive with unknown fields")


async def trace(bench: Bench) -> None:
    """Replies have the correlation id of their directive, and a traceparent of its trace."""
    directive = bench.directive()
    await bench.send(directive)
    await _result(bench, directive)
    for reply in bench.of(directive):
        kind = reply.body["type"]
        _expect(directive["correlation_id"], reply.body.get("correlation_id"), f"{kind}: correlation_id")
        _expect(_trace_id(directive), _trace_id(reply.body), f"{kind}: trace id of traceparent")


async def final_result(bench: Bench) -> None:
    """A final result is copied to `{output_ref}/{jobId}/`, or to the blob that `output_ref` names; others are not."""
    plain, folder = bench.directive(), bench.directive(final=True)
    named_uri = f"{folder['output_ref']['uri']}/named-{uuid4().hex}.json"
    named = bench.directive(final=True, output_ref={"uri": named_uri})
    for directive in (plain, folder, named):
        await bench.send(directive)
    if (at := _uri((await _result(bench, plain)).body, "output_ref")) is not None:
        raise Wrong(f"a result that is not final has an output_ref: {at}")
    below = f"{folder['output_ref']['uri']}/{folder['jobId']}/"
    for directive, place in ((folder, below), (named, named_uri)):
        result = (await _result(bench, directive)).body
        at = _uri(result, "output_ref")
        if at is None or not (at.startswith(below) if place is below else at == place):
            raise Wrong(f"output_ref of a final RESULT is {at}, not {'under ' if place is below else ''}{place}")
        copy = await bench.content(at)
        if copy is None:
            raise Wrong(f"there is no blob at output_ref {at}")
        if copy != await bench.content(_uri(result, "result_ref") or ""):
            raise Wrong("the blobs at output_ref and result_ref differ")


async def unwritable_output(bench: Bench) -> None:
    """Where the `output_ref` of a final result cannot be written, the RESULT is a failure with a reason."""
    directive = bench.directive(final=True, output_ref={"uri": "https://verify.invalid/results/none"})
    await bench.send(directive)
    result = (await _result(bench, directive)).body
    if result.get("status") == "SUCCEEDED":
        raise Wrong("RESULT is SUCCEEDED, with an output_ref on a host that does not exist")
    if not (result.get("error") or {}).get("code"):
        raise Wrong("RESULT has no error.code")


async def places(bench: Bench) -> None:
    """The result lies under `workspace_ref`, and nothing is written elsewhere. It looks at all blobs of the run."""
    directive = bench.directive()
    await bench.send(directive)
    result = (await _result(bench, directive)).body
    at = _uri(result, "result_ref") or ""
    if not at.startswith(directive["workspace_ref"]["uri"]):
        raise Wrong(f"result_ref is {at}, not under workspace_ref")
    if await bench.content(at) is None:
        raise Wrong(f"there is no blob at result_ref {at}")


async def stray_blobs(bench: Bench) -> None:
    """All checks together wrote only into the folder of their tenant and under their `output_ref`."""
    own = (f"workspace/verify/{bench.tenant}/", f"results/{bench.run_id}/")
    for name in await bench.written():
        if not name.startswith(own):
            raise Wrong(f"{name} was written, which is neither under workspace_ref nor under output_ref")


async def artifacts(bench: Bench) -> None:
    """Artifacts and digests in RESULT are those of the blobs that they name."""
    directive = bench.directive()
    await bench.send(directive)
    result = (await _result(bench, directive)).body
    listed, digest = result.get("artifacts") or [], (result.get("digests") or {}).get("result_ref")
    if not listed and digest is None:
        raise Skipped("RESULT has neither artifacts nor digests")
    for artifact in listed:
        data = await bench.content(str(artifact.get("uri")))
        if data is None:
            raise Wrong(f"there is no blob of the artifact {artifact.get('name')}")
        _expect(
            hashlib.sha256(data).hexdigest(), artifact.get("sha256"), f"sha256 of the artifact {artifact.get('name')}"
        )
        _expect(len(data), artifact.get("size"), f"size of the artifact {artifact.get('name')}")
    if digest is not None:
        data = await bench.content(_uri(result, "result_ref") or "") or b""
        _expect(f"sha256:{hashlib.sha256(data).hexdigest()}", digest, "digests.result_ref")


async def acknowledges(bench: Bench) -> None:
    """ACK comes in time, and well before the work ends."""
    directive = bench.directive(slow=True)
    await bench.send(directive)
    first = await bench.reply(directive, "ACK")
    if first is None:
        raise Wrong(f"no ACK within {bench.options.ack_s:g} s")
    result = await _result(bench, directive)
    sent_first = bench.of(directive)[0]
    if sent_first.body["type"] != "ACK":
        raise Wrong(f"{sent_first.body['type']} came before ACK")
    work_s = result.at - first.at
    if work_s < _ENOUGH_S:
        raise Wrong(f"ACK came {work_s:.2f} s before RESULT: not on receipt, or the slow sample is too quick")


async def heartbeats(bench: Bench) -> None:
    """While an attempt waits or is worked on, heartbeats come within their cadence."""
    directive = bench.directive(slow=True)
    await bench.send(directive)
    result = await _result(bench, directive)
    times = [each.at for each in bench.of(directive, "ACK", "HEARTBEAT")] + [result.at]
    longest = max(later - earlier for earlier, later in pairwise(times)) if len(times) > 1 else 0.0
    # two in a row may be missed before LUCIUS takes the service for gone
    if longest > 2 * bench.options.cadence_s:
        raise Wrong(f"nothing came for {longest:.1f} s; the cadence is {bench.options.cadence_s:g} s")
    if result.at - times[0] <= 2 * bench.options.cadence_s:
        raise Skipped(f"the slow sample is no longer than two cadences of {bench.options.cadence_s:g} s")


async def newer_attempt(bench: Bench) -> None:
    """A newer attempt of a step is worked on while an older one is in flight, and its RESULT has its own lease."""
    first = bench.directive(slow=True)
    second = bench.directive(slow=True, jobId=first["jobId"], attempt_no=2)
    await bench.send(first)
    await bench.reply(first, "ACK")
    await bench.send(second)
    if await bench.reply(second, "RESULT", attempt=2) is None:
        raise Wrong("the newer attempt has no RESULT")


async def killed(bench: Bench) -> None:
    """SIGKILL during the work loses nothing: another process gets the directive, and there is one RESULT."""
    directive = bench.directive(slow=True)
    await bench.send(directive)
    if await bench.reply(directive, "ACK") is None:
        raise Wrong("no ACK")
    if bench.of(directive, "RESULT"):
        raise Skipped("the slow sample was over before SIGKILL")
    bench.kill()
    bench.start()
    if await bench.reply(directive, "RESULT", within_s=bench.options.again_s) is None:
        raise Wrong(f"no RESULT within {_again(bench)} of SIGKILL during the work")
    await _same_result(bench, directive)


async def duplicate_after_restart(bench: Bench) -> None:
    """A process that did not do the work sends the RESULT again, as it was."""
    directive = bench.directive()
    await bench.send(directive)
    await _result(bench, directive)
    await bench.is_settled(directive, bench.options.result_s)
    bench.kill()
    bench.start()
    await bench.send(directive)
    if not await bench.until(lambda: len(bench.of(directive, "RESULT")) > 1, bench.options.result_s):
        raise Wrong("no RESULT came again after a restart")
    await _same_result(bench, directive)


async def drained(bench: Bench) -> None:
    """After SIGTERM running work ends or goes back to the bus, and the exit code is 0."""
    directive = bench.directive(slow=True)
    await bench.send(directive)
    if await bench.reply(directive, "ACK") is None:
        raise Wrong("no ACK")
    code = await bench.stop()
    bench.start()
    # in any case, so that nothing of this run is left on the bus
    ended = await bench.reply(directive, "RESULT", within_s=bench.options.again_s) is not None
    if code is None:
        raise Wrong(f"the process did not end within {bench.options.stop_s:g} s of SIGTERM")
    _expect(0, code, "exit code after SIGTERM")
    if not ended:
        raise Wrong(f"work that was running at SIGTERM has no RESULT within {_again(bench)}")


FAST: tuple[Check, ...] = (
    *(identity, one_result, duplicate_later, stale_attempt, malformed, misrouted, unknown_fields, trace),
    *(final_result, unwritable_output, places, artifacts),
)
SLOW: tuple[Check, ...] = (acknowledges, heartbeats, duplicate_at_once, newer_attempt)
SLOW_STOPPED: tuple[Check, ...] = (killed, drained)
STOPPED: tuple[Check, ...] = (*SLOW_STOPPED, duplicate_after_restart)
LAST: tuple[Check, ...] = (stray_blobs,)

#: least time between an ACK on receipt and the RESULT of a slow sample
_ENOUGH_S = 0.5


async def _result(bench: Bench, directive: Json) -> Reply:
    """The RESULT of the directive's attempt. Raises Wrong where it does not come, or is no RESULT."""
    result = await bench.reply(directive, "RESULT", attempt=directive["attempt_no"])
    if result is None:
        ended = "; the service has ended" if bench.has_ended else ""
        raise Wrong(f"no RESULT within {bench.options.result_s:g} s{ended}")
    if result.body.get("status") not in _STATUS:
        raise Wrong(f"status of RESULT is {result.body.get('status')!r}, not one of {', '.join(_STATUS)}")
    return result


def _again(bench: Bench) -> str:
    """How long a directive was waited for that comes again, and whether that is enough."""
    waited_s = bench.options.again_s
    hint = "" if waited_s > LONGEST_LOCK_S else f" (a lock may last {LONGEST_LOCK_S:g} s: a longer --wait would tell)"
    return f"{waited_s:g} s{hint}"


async def _same_result(bench: Bench, directive: Json) -> None:
    await bench.settle()
    # each sending has a span of its own
    bodies = [{k: v for k, v in each.body.items() if k != "traceparent"} for each in bench.of(directive, "RESULT")]
    for other in bodies[1:]:
        for name in {*bodies[0], *other}:
            if bodies[0].get(name) != other.get(name):
                raise Wrong(
                    f"the RESULTs of one attempt differ in {name}: the work was repeated, or its record is lost"
                )


async def _dead_lettered(bench: Bench, body: Json | bytes, what: str) -> None:
    message_id = uuid4().hex
    await bench.send(body, message_id)
    dead = await bench.dead_letter(message_id, bench.options.ack_s)
    if dead is None:
        raise Wrong(f"{what} was not dead-lettered within {bench.options.ack_s:g} s")
    if not dead.dead_letter_reason:
        raise Wrong(f"{what} was dead-lettered without a reason")
    if dead.dead_letter_reason == "MaxDeliveryCountExceeded":
        raise Wrong(f"{what} was delivered again and again before it was dead-lettered")


def _expect(expected: Any, actual: Any, what: str) -> None:
    if expected != actual:
        raise Wrong(f"{what} is {actual!r}, not {expected!r}")


def _uri(body: Json, name: str) -> str | None:
    """Of a reference, which may be an object or a string."""
    reference = body.get(name)
    uri = reference.get("uri") if isinstance(reference, dict) else reference
    return uri if isinstance(uri, str) and urlsplit(uri).scheme else None


def _trace_id(body: Json) -> str | None:
    parts = str(body.get("traceparent") or "").split("-")
    return parts[1] if len(parts) == 4 else None
