"""The rules of the contract, one check per rule. A check raises Wrong if the rule is broken, or Skipped if the check
cannot run.

`FAST` checks need only the sample. `SLOW` checks need a slow sample, whose work takes more than twice `--cadence`.
`STOPPED` checks stop the service.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Awaitable, Callable, Iterator
from itertools import pairwise
from uuid import uuid4

from lucius_service.contract.bench import Bench
from lucius_service.contract.expectations import (
    Skipped,
    Wrong,
    again,
    expect,
    expect_dead_letter,
    expect_same_result,
    result_of,
    trace_id,
    uri_of,
)
from lucius_service.contract.replies import Reply

Check = Callable[[Bench], Awaitable[None]]

_IDENTITY = ("jobId", "stepId", "tenant_id", "attempt_no", "lease_id")


async def identity(bench: Bench) -> None:
    """Checks that every reply has the ids, the tenant, the attempt and the lease of its directive."""
    directive = bench.directive()
    await bench.send(directive)
    await result_of(bench, directive)
    for reply in bench.of(directive):
        for name in _IDENTITY:
            expect(directive[name], reply.body.get(name), f"{reply.body['type']}: {name}")


async def one_result(bench: Bench) -> None:
    """Checks that an attempt has one RESULT, which is SUCCEEDED for the sample, and that no ACK follows the RESULT."""
    directive = bench.directive()
    await bench.send(directive)
    result = await result_of(bench, directive)
    expect("SUCCEEDED", result.body.get("status"), f"status ({json.dumps(result.body.get('error'))})")
    await bench.settle()
    kinds = [each.body["type"] for each in bench.of(directive, "ACK", "RESULT")]
    if kinds[-1] != "RESULT":
        raise Wrong(f"{kinds[-1]} came after RESULT")
    expect(1, kinds.count("RESULT"), "number of RESULTs")


async def lanes(bench: Bench) -> None:
    """Sends a directive on a second lane, and checks that the replies come on the same lane."""
    lane = bench.other_lane
    if lane is None:
        raise Skipped(f"the bus has no lane next to {bench.options.lane}")
    directive, options = bench.directive(lane=lane), bench.options
    # the message expires if the service does not listen there
    await bench.send(directive, time_to_live_s=options.result_s + options.ack_s)
    await bench.until(lambda: bool(bench.anywhere(directive) or bench.of_type("RESULT")), options.result_s)
    if not await bench.until(lambda: bool(bench.anywhere(directive)), options.ack_s):
        if await bench.is_settled(directive, 0):
            raise Wrong(f"a directive on lane {lane} was settled, and no reply came on lane {lane} or {options.lane}")
        raise Skipped(f"the service does not receive on lane {lane}")
    await bench.until(
        lambda: any(each.body.get("type") == "RESULT" for each in bench.anywhere(directive)), options.result_s
    )
    for reply in bench.anywhere(directive):
        if reply.lane not in (None, lane):
            raise Wrong(f"{reply.body.get('type')} of a directive on lane {lane} came on lane {reply.lane}")
    await result_of(bench, directive)


async def heartbeats_end(bench: Bench) -> None:
    """Checks that no HEARTBEAT follows the RESULT of an attempt.

    The check reads the replies of all attempts so far. After the first RESULT, the check waits 1.5 times the longest
    heartbeat interval, at most two cadences. If no interval was measured, the check waits one cadence. The check adds
    `settle_s` to this wait.
    """
    attempts = [_after_result(replies) for replies in bench.of_attempts()]
    results = [replies[0].at for replies in attempts if replies]
    if not results:
        raise Skipped("no attempt has a RESULT")
    options, intervals = bench.options, [*_intervals(bench)]
    interval_s = min(1.5 * max(intervals), 2 * options.cadence_s) if intervals else options.cadence_s
    ends = min(results) + interval_s + options.settle_s

    def late() -> float | None:
        for result, *after in filter(None, map(_after_result, bench.of_attempts())):
            for reply in after:
                if reply.body["type"] == "ACK":
                    break  # the message of the directive was delivered again
                if reply.body["type"] == "HEARTBEAT":
                    return reply.at - result.at
        return None

    await bench.until(lambda: late() is not None or time.monotonic() > ends, interval_s + options.settle_s)
    if (late_s := late()) is not None:
        raise Wrong(f"HEARTBEAT came {late_s:.1f} s after the RESULT of its attempt")


async def duplicate_at_once(bench: Bench) -> None:
    """Checks that the service executes a directive only once if LUCIUS sends the directive twice without a pause. All
    RESULTs must be equal.
    """
    directive = bench.directive(slow=bench.options.slow is not None)
    await bench.send(directive)
    await bench.send(directive)
    await result_of(bench, directive)
    await bench.is_settled(directive, bench.options.result_s)
    await expect_same_result(bench, directive)


async def duplicate_later(bench: Bench) -> None:
    """Checks that the service repeats its RESULT, without a second execution, if LUCIUS sends the directive again."""
    directive = bench.directive()
    await bench.send(directive)
    await result_of(bench, directive)
    await bench.is_settled(directive, bench.options.result_s)
    await bench.send(directive)
    if not await bench.until(lambda: len(bench.of(directive, "RESULT")) > 1, bench.options.result_s):
        raise Wrong("the service did not send the RESULT again; if the first RESULT is lost, the attempt times out")
    await expect_same_result(bench, directive)


async def stale_attempt(bench: Bench) -> None:
    """Checks that the service does not execute an attempt after a newer attempt of the same step."""
    newer = bench.directive(attempt_no=2)
    await bench.send(newer)
    await result_of(bench, newer)
    older = bench.directive(jobId=newer["jobId"], attempt_no=1)
    await bench.send(older)
    if not await bench.is_settled(older, bench.options.result_s):
        raise Wrong("the older attempt was neither completed nor dead-lettered")
    await bench.settle()
    for reply in bench.of(older, "RESULT"):
        if reply.body.get("attempt_no") == 1 and reply.body.get("status") == "SUCCEEDED":
            raise Wrong("the older attempt was executed")


async def malformed(bench: Bench) -> None:
    """Checks that the service itself dead-letters a message that is not a directive, with a reason."""
    for what, body in (
        ("a body that is not JSON", b"not json"),
        ("a directive without jobId", json.dumps({**bench.directive(), "jobId": None}).encode()),
        ("a JSON list", b"[]"),
    ):
        await expect_dead_letter(bench, body, what)


async def misrouted(bench: Bench) -> None:
    """Checks that the service itself dead-letters a directive of another step type, with a reason."""
    await expect_dead_letter(bench, bench.directive(step_type="VERIFY_OTHER"), "a directive of another step type")


async def unknown_fields(bench: Bench) -> None:
    """Checks that the service ignores fields that the contract does not name."""
    directive = bench.directive(verify_new_field={"a": [1]}, verify_other=None)
    await bench.send(directive)
    result = await result_of(bench, directive)
    expect("SUCCEEDED", result.body.get("status"), "status of a directive with unknown fields")


async def trace(bench: Bench) -> None:
    """Checks that replies have the correlation id and the trace id of their directive."""
    directive = bench.directive()
    await bench.send(directive)
    await result_of(bench, directive)
    for reply in bench.of(directive):
        kind = reply.body["type"]
        expect(directive["correlation_id"], reply.body.get("correlation_id"), f"{kind}: correlation_id")
        expect(trace_id(directive), trace_id(reply.body), f"{kind}: trace id of traceparent")


async def final_result(bench: Bench) -> None:
    """Checks that only a final result is copied to `{output_ref}/{jobId}/`, or to the blob that `output_ref` names."""
    plain, folder = bench.directive(), bench.directive(final=True)
    named_uri = f"{folder['output_ref']['uri']}/named-{uuid4().hex}.json"
    named = bench.directive(final=True, output_ref={"uri": named_uri})
    for directive in (plain, folder, named):
        await bench.send(directive)
    if (at := uri_of((await result_of(bench, plain)).body, "output_ref")) is not None:
        raise Wrong(f"a result that is not final has an output_ref: {at}")
    below = f"{folder['output_ref']['uri']}/{folder['jobId']}/"
    for directive, place in ((folder, below), (named, named_uri)):
        result = (await result_of(bench, directive)).body
        at = uri_of(result, "output_ref")
        if at is None or not (at.startswith(below) if place is below else at == place):
            raise Wrong(f"output_ref of a final RESULT is {at}, not {'under ' if place is below else ''}{place}")
        copy = await bench.content(at)
        if copy is None:
            raise Wrong(f"the blob at output_ref {at} is missing")
        if copy != await bench.content(uri_of(result, "result_ref") or ""):
            raise Wrong("the blobs at output_ref and result_ref differ")


async def unwritable_output(bench: Bench) -> None:
    """Checks that the RESULT has an error code if the service cannot write to the `output_ref` of a final result."""
    directive = bench.directive(final=True, output_ref={"uri": "https://verify.invalid/results/none"})
    await bench.send(directive)
    result = (await result_of(bench, directive)).body
    if result.get("status") == "SUCCEEDED":
        raise Wrong("RESULT is SUCCEEDED, with an output_ref on a host that does not exist")
    if not (result.get("error") or {}).get("code"):
        raise Wrong("RESULT has no error.code")


async def places(bench: Bench) -> None:
    """Checks that the result is a blob under `workspace_ref`."""
    directive = bench.directive()
    await bench.send(directive)
    result = (await result_of(bench, directive)).body
    at = uri_of(result, "result_ref") or ""
    if not at.startswith(directive["workspace_ref"]["uri"]):
        raise Wrong(f"result_ref is {at}, not under workspace_ref")
    if await bench.content(at) is None:
        raise Wrong(f"the blob at result_ref {at} is missing")


async def stray_blobs(bench: Bench) -> None:
    """Checks that the service wrote only into the folder of the run's tenant and under the `output_ref` of the run.

    Reads the names in all containers, or in `workspace` and `results` if the connection cannot list containers.
    """
    own = (f"workspace/verify/{bench.tenant}/", f"results/{bench.run_id}/")
    for name in await bench.written():
        if not name.startswith(own):
            raise Wrong(f"the blob {name} was written outside workspace_ref and output_ref")
    if not await bench.sees_all_blobs():
        raise Skipped("the connection cannot list containers: only workspace and results were searched")


async def artifacts(bench: Bench) -> None:
    """Checks that the artifacts, and the digest of `result_ref`, in RESULT match their blobs."""
    directive = bench.directive()
    await bench.send(directive)
    result = (await result_of(bench, directive)).body
    listed, digest = result.get("artifacts") or [], (result.get("digests") or {}).get("result_ref")
    if not listed and digest is None:
        raise Skipped("RESULT has neither artifacts nor digests")
    for artifact in listed:
        data = await bench.content(str(artifact.get("uri")))
        if data is None:
            raise Wrong(f"the artifact {artifact.get('name')} has no blob")
        expect(
            hashlib.sha256(data).hexdigest(), artifact.get("sha256"), f"sha256 of the artifact {artifact.get('name')}"
        )
        expect(len(data), artifact.get("size"), f"size of the artifact {artifact.get('name')}")
    if digest is not None:
        data = await bench.content(uri_of(result, "result_ref") or "") or b""
        expect(f"sha256:{hashlib.sha256(data).hexdigest()}", digest, "digests.result_ref")


async def acknowledges(bench: Bench) -> None:
    """Checks that ACK is the first reply, comes within `ack_s` seconds, and comes at least 0.5 seconds before
    RESULT.
    """
    directive = bench.directive(slow=True)
    await bench.send(directive)
    first = await bench.reply(directive, "ACK")
    if first is None:
        raise Wrong(f"no ACK within {bench.options.ack_s:g} s")
    result = await result_of(bench, directive)
    sent_first = bench.of(directive)[0]
    if sent_first.body["type"] != "ACK":
        raise Wrong(f"{sent_first.body['type']} came before ACK")
    work_s = result.at - first.at
    if work_s < _ENOUGH_S:
        raise Wrong(f"ACK came {work_s:.2f} s before RESULT; send ACK on receipt, or use a longer slow sample")


async def heartbeats(bench: Bench) -> None:
    """Checks that replies come at least every two cadences until the attempt ends."""
    directive = bench.directive(slow=True)
    await bench.send(directive)
    result = await result_of(bench, directive)
    times = [each.at for each in bench.of(directive, "ACK", "HEARTBEAT")] + [result.at]
    longest = max(later - earlier for earlier, later in pairwise(times)) if len(times) > 1 else 0.0
    # LUCIUS counts a service as gone after two missed heartbeats
    limit_s = 2 * bench.options.cadence_s
    if longest > limit_s:
        raise Wrong(f"no reply came for {longest:.1f} s; the limit is {limit_s:g} s, twice --cadence")
    if result.at - times[0] <= limit_s:
        raise Skipped(f"the work of the slow sample must take more than {limit_s:g} s, twice --cadence")


async def newer_attempt(bench: Bench) -> None:
    """Checks that a newer attempt of a step has a RESULT while an older attempt is in flight."""
    first = bench.directive(slow=True)
    second = bench.directive(slow=True, jobId=first["jobId"], attempt_no=2)
    await bench.send(first)
    await bench.reply(first, "ACK")
    await bench.send(second)
    if await bench.reply(second, "RESULT", attempt=2) is None:
        raise Wrong("the newer attempt has no RESULT")


async def killed(bench: Bench) -> None:
    """Checks that after SIGKILL during the work another process gets the directive and sends a RESULT."""
    directive = bench.directive(slow=True)
    await bench.send(directive)
    if await bench.reply(directive, "ACK") is None:
        raise Wrong("no ACK")
    if bench.of(directive, "RESULT"):
        raise Skipped("the work of the slow sample ended before SIGKILL")
    bench.kill()
    bench.start()
    if await bench.reply(directive, "RESULT", within_s=bench.options.again_s) is None:
        raise Wrong(f"no RESULT within {again(bench)} of SIGKILL during the work")
    await expect_same_result(bench, directive)


async def duplicate_after_restart(bench: Bench) -> None:
    """Checks that a process that did not do the work sends the same RESULT again."""
    directive = bench.directive()
    await bench.send(directive)
    await result_of(bench, directive)
    await bench.is_settled(directive, bench.options.result_s)
    bench.kill()
    bench.start()
    await bench.send(directive)
    if not await bench.until(lambda: len(bench.of(directive, "RESULT")) > 1, bench.options.result_s):
        raise Wrong("the service did not send the RESULT again after a restart")
    await expect_same_result(bench, directive)


async def drained(bench: Bench) -> None:
    """Checks that after SIGTERM the exit code is 0, and that running work ends or returns to the bus."""
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
    expect(0, code, "exit code after SIGTERM")
    if not ended:
        raise Wrong(f"the work that was running at SIGTERM has no RESULT within {again(bench)}")


FAST: tuple[Check, ...] = (
    *(identity, one_result, duplicate_later, stale_attempt, malformed, misrouted, unknown_fields, trace),
    *(final_result, unwritable_output, places, artifacts, lanes),
)
SLOW: tuple[Check, ...] = (acknowledges, heartbeats, duplicate_at_once, newer_attempt)
#: checks before the service is killed, which use its later replies
LISTENING: tuple[Check, ...] = (heartbeats_end,)
SLOW_STOPPED: tuple[Check, ...] = (killed, drained)
STOPPED: tuple[Check, ...] = (*SLOW_STOPPED, duplicate_after_restart)
LAST: tuple[Check, ...] = (stray_blobs,)

#: minimum seconds between an early ACK and the RESULT of a slow sample
_ENOUGH_S = 0.5


def _after_result(replies: list[Reply]) -> list[Reply]:
    """Returns the RESULT of an attempt and all later replies, or [] if there is no RESULT."""
    first = next((number for number, each in enumerate(replies) if each.body["type"] == "RESULT"), len(replies))
    return replies[first:]


def _intervals(bench: Bench) -> Iterator[float]:
    """Yields the seconds between consecutive heartbeats of each attempt, before its RESULT."""
    for replies in bench.of_attempts():
        working = replies[: len(replies) - len(_after_result(replies))]
        for earlier, later in pairwise(each.at for each in working if each.body["type"] == "HEARTBEAT"):
            yield later - earlier
