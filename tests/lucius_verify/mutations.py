"""Mutations of the jobs and logs of one bundle: chain and ends, impossible histories, invented but possible ones."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any

from shared.core.jobs.as_of import compute_rows_digest, rebuild_created
from tests.lucius_verify.forging import chained, folded, retold, typed
from tests.lucius_verify.stories import failed_and_redriven, logs, replayed, troubled
from tests.lucius_verify.walks import Document

Json = dict[str, Any]
#: changes that a forger makes to the history of one job
OnJob = Callable[[Document], Document | None]


# chain and ends: of a job, with a digest that fits


def _event(seq: int, /, **columns: Any) -> OnJob:
    return lambda given: given["events"][seq - 1].update(columns)


def _row(where: str, /, **columns: Any) -> OnJob:
    return lambda given: (given["job"] if where == "job" else given["steps"][int(where)]).update(columns)


def _then_chained(change: OnJob) -> OnJob:
    def changed(given: Document) -> Document:
        change(given)
        return chained(given)

    return changed


def _swapped(given: Document) -> None:
    events = given["events"]
    events[3], events[4] = events[4], events[3]


#: columns of an event, each changed without its hash
_COLUMNS: Json = {
    "seq": 99,
    "type": "HEARTBEAT",
    "job_id": "job_z",
    "step_id": "sis",
    "attempt_no": 7,
    "lease_digest": "sha256:0",
    "from_status": "PENDING",
    "to_status": "SUCCEEDED",
    "job_from": "PAUSED",
    "job_to": "SUCCEEDED",
    "actor": "somebody",
    "source": "else",
    "reason": "none",
    "at": "2026-01-27T11:00:00.000000+00:00",
    "data": {},
    "salt": "00",
    "cause_id": "another",
    "rules": 2,
    "prev_hash": "0" * 64,
    "hash": "0" * 64,
}

CHAIN: dict[str, OnJob] = {
    **{f"event 9: another {name}": _event(9, **{name: value}) for name, value in _COLUMNS.items()},
    **{f"event {seq}: gone": lambda given, seq=seq: given["events"].pop(seq - 1) for seq in (1, 2, 9, 21, 22)},
    **{
        f"event {seq}: twice": lambda given, seq=seq: given["events"].insert(seq, given["events"][seq - 1])
        for seq in (1, 9)
    },
    "events exchanged": _swapped,
    "no events": lambda given: given["events"].clear(),
    "an event that is null": lambda given: given["events"].__setitem__(3, {**given["events"][3], "data": None}),
    "an event with data and its digest": _event(9, data_digest="0" * 64),
    "an event without its data": lambda given: given["events"][8].pop("data"),
    "an event of another job, chained": _then_chained(_event(9, job_id="job_z")),
    "a state that nothing led to, chained": _then_chained(_event(9, job_from="PAUSED")),
    "the job has another head": _row("job", event_hash="0" * 64),
    "the job has fewer events": _row("job", event_seq=21),
    "the job is in another state": _row("job", status="CANCELLED"),
    "the job has no end": lambda given: given["job"].pop("completed_at"),
    "the job has no result": lambda given: given["job"].pop("final_output"),
    "the job has another result": _row("job", final_output={"uri": "https://evil.example/x"}),
    "the job has another document": _row("job", input_ref={"uri": "https://evil.example/x"}),
    "the job has another requester": _row("job", requested_by="somebody"),
    "the job has other labels": _row("job", labels={"team": "red"}),
    "the job has fewer attempts": _row("job", attempts_total=1),
    "the job has a column more": _row("job", luck=7),
    "a step has another payload": _row("0", payload={"x": 1}),
    "a step has another result": _row("0", result_ref={"uri": "https://evil.example/x"}),
    "a step is in another state": _row("1", status="FAILED_FINAL"),
    "a step has another artifact": lambda given: given["steps"][2]["result"]["artifacts"][0].update(name="else.json"),
    "a step has other timings": lambda given: given["steps"][0]["timings"].update(max_attempts=9),
    "a step gone": lambda given: given["steps"].pop(1),
    "a step twice": lambda given: given["steps"].insert(1, given["steps"][0]),
    "steps exchanged": lambda given: given["steps"].reverse(),
    "a row as created that is another's, chained": _then_chained(
        lambda given: given["events"][0]["data"].update(rows="0")
    ),
    "the format of another release, chained": _then_chained(lambda given: given["events"][0]["data"].update(format=3)),
    "a change that the row does not have, chained": _then_chained(
        lambda given: given["events"][21]["data"]["changes"]["job"].update(
            final_output={"uri": "https://evil.example/x"}
        )
    ),
}


# impossible: every hash computed again, and the rows made from the events


def _later(text: str, seconds: float = 1) -> str:
    return (datetime.fromisoformat(text) + timedelta(seconds=seconds)).isoformat(timespec="microseconds")


def _altered(value: Any) -> Any:
    """Returns another value of the same type; None: no state or reference could have another value."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    if isinstance(value, str):
        try:
            return _later(value)
        except ValueError:
            return None
    return None


#: inputs, which no rule decides
_INPUTS = frozenset({"progress", "result", "result_ref"})


def computed_values(document: Document) -> Iterator[tuple[int, tuple[str, ...], Any]]:
    """Numbers and times among the changes of each event, which follow from the rules, and another value of each."""

    def leaves(value: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
        for name, each in value.items():
            if isinstance(each, dict):
                yield from leaves(each, (*path, name))
            elif (other := _altered(each)) is not None:
                yield (*path, name), other

    for event in document["events"]:
        for path, other in leaves(event["data"].get("changes", {}), ()):
            if not _INPUTS & set(path):
                yield event["seq"], path, other


def _set_change(seq: int, path: tuple[str, ...], value: Any) -> OnJob:
    def changed(given: Document) -> Document:
        place = given["events"][seq - 1]["data"]["changes"]
        for name in path[:-1]:
            place = place[name]
        place[path[-1]] = value
        return folded(given, troubled())

    return changed


def _refolded(change: OnJob) -> OnJob:
    """The change, with every hash and the rows that follow."""

    def changed(given: Document) -> Document:
        change(given)
        return folded(given, troubled())

    return changed


def _without(*seqs: int) -> OnJob:
    def gone(given: Document) -> None:
        given["events"] = [event for event in given["events"] if event["seq"] not in seqs]

    return _refolded(gone)


def _of_step(seq: int, columns: Json, **of_event: Any) -> OnJob:
    def changed(given: Document) -> None:
        event = given["events"][seq - 1]
        event["data"]["changes"]["steps"][event["step_id"]].update(columns)
        event.update(of_event)

    return _refolded(changed)


def _step_after_a_failure(_: Document) -> Document:
    honest, event = failed_and_redriven()[0], copy.deepcopy(troubled()["events"][19])
    failed = copy.deepcopy(honest)
    failed["events"][6:] = [event | {"job_id": "job_b", "job_from": "FAILED_FINAL", "job_to": "FAILED_FINAL"}]
    return folded(failed, honest)


IMPOSSIBLE: dict[str, OnJob] = {
    **{
        f"event {seq}: another {'.'.join(path)}": _set_change(seq, path, other)
        for seq, path, other in computed_values(troubled())
    },
    "PENDING to SUCCEEDED": _of_step(3, {"status": "SUCCEEDED"}, to_status="SUCCEEDED"),
    "a retry before it is due": _refolded(_event(8, at="2026-01-27T10:02:00.000000+00:00")),
    "a time-out before its time": _refolded(_event(7, at="2026-01-27T10:01:30.000000+00:00")),
    "an attempt over the maximum": _of_step(12, {"attempt_no": 4}, attempt_no=4),
    "a RESULT of another attempt": _refolded(_event(19, attempt_no=2)),
    "a RESULT of another lease": _refolded(_event(19, lease_digest=f"sha256:{'0' * 64}")),
    "a RESULT of another step": _refolded(_event(19, step_id="sis")),
    "an attempt that was never recorded": _without(18),
    "an admission of a job that does not wait": _refolded(_event(16, type="ADMITTED")),
    "a pause of a job that is paused": _refolded(_event(16, type="PAUSE_REQUESTED")),
    "a heartbeat that comes too early": _refolded(_event(10, at="2026-01-27T10:04:20.000000+00:00")),
    "an ACK as a heartbeat": _refolded(_event(9, type="HEARTBEAT")),
    "a cancel that cancels nothing": _refolded(_event(14, type="CANCEL_REQUESTED")),
    "rows of the tables that were not used": _refolded(lambda given: given["events"][8]["data"].update(transitions=[])),
    "a null that is left out": _refolded(
        lambda given: given["events"][7]["data"]["changes"]["steps"]["ocr"].pop("retry_cause")
    ),
    "a field of data more": _refolded(lambda given: given["events"][8]["data"].update(luck=7)),
    "an ignored reply for another reason": _refolded(_event(17, reason="STALE_ATTEMPT")),
    "a step that was never under way": _refolded(_event(2, from_status="INITIATED")),
    "rules that nobody has": _refolded(_event(9, rules=99)),
    "a type that nobody has": _refolded(_event(9, type="JOB_BLESSED")),
    "a time that is none": _then_chained(_event(9, at="yesterday")),
    "a step after a failed one": _step_after_a_failure,
    "a job that was withdrawn and went on": _refolded(_event(1, type="JOB_WITHDRAWN")),
}


# invented but possible: other inputs, from which everything follows


def _retold(seq: int, /, **changes: Any) -> OnJob:
    return lambda given: retold(given, seq, **changes)


_EVIL = {"uri": "https://evil.example/x"}
INVENTED: dict[str, OnJob] = {
    **{f"event {seq}: another actor": _retold(seq, actor="somebody") for seq in (1, 2, 3, 9, 12, 14, 16, 19, 22)},
    **{f"event {seq}: another source": _retold(seq, source="else") for seq in (2, 8, 13, 20)},
    **{f"event {seq}: another cause": _retold(seq, cause_id="another") for seq in (2, 10, 18, 22)},
    **{f"event {seq}: another salt": _retold(seq, salt="00") for seq in (1, 5, 15, 21)},
    **{f"event {seq}: another result": _retold(seq, result_ref=_EVIL) for seq in (15, 19, 22)},
    **{f"event {seq}: other metrics": _retold(seq, of_step_result={"metrics": {"pages": 9}}) for seq in (15, 19, 22)},
    **{f"event {seq}: another reason": _retold(seq, reason="because") for seq in (2, 6, 14, 16)},
    **{
        f"event {seq}: a second later": _retold(seq, at=_later(troubled()["events"][seq - 1]["at"]))
        for seq in (3, 9, 15, 22)
    },
    "event 10: other progress": _retold(10, progress={"page": 7}),
    "event 22: another artifact": _retold(
        22, of_step_result={"artifacts": [{"name": "else.json", "uri": _EVIL["uri"]}]}
    ),
    "event 11: another error": _retold(11, error={"code": "BUSY", "message": "never"}),
    "event 11: an error code": _retold(11, error={"code": "LAZY", "message": "come back later"}),
    "event 13: another note": _retold(13, note="never"),
    "event 15: another worker": _retold(15, worker_id="ocr-9"),
    "event 4: another fault": _retold(4, last_error_message="the bus was fine"),
    "event 3: another lease": _retold(3, lease_digest=f"sha256:{'0' * 64}"),
}


# a replay and its original: (the changed pair, level that must catch it)

Pair = tuple[Document, Document]


def with_rows(document: Document) -> Document:
    """Returns the document, chained, whose first event has the digest of its rows as created."""
    document["events"][0]["data"]["rows"] = compute_rows_digest(rebuild_created(*typed(document)))
    return chained(document)


def _replay(
    change: Callable[[Document], Any], finish: Callable[[Document], Document] = with_rows
) -> Callable[[], Pair]:
    def changed() -> Pair:
        old, new = copy.deepcopy(replayed())
        change(new)
        return old, finish(new)

    return changed


def _original(seq: int, /, **changes: Any) -> Callable[[], Pair]:
    return lambda: (retold(replayed()[0], seq, **changes), replayed()[1])


def _named(other: str) -> Callable[[Document], None]:
    def named(new: Document) -> None:
        new["job"]["replay_of"] = new["events"][0]["data"]["replay_of"] = other

    return named


def _replayed_early() -> Pair:
    old, new = copy.deepcopy(replayed())
    old["events"][2] |= {
        **{name: old["events"][4][name] for name in ("type", "reason")},
        "data": old["events"][4]["data"],
    }
    return folded(old, replayed()[0]), new


REPLAYED: dict[str, tuple[Callable[[], Pair], int]] = {
    "the original names another replay": (_original(5, replayed_by="job_x"), 1),
    "the original names another mode": (_original(5, mode="rerun"), 1),
    "the original was replayed for another reason": (_original(5, reason="because"), 1),
    "the original has another artifact": (
        _original(4, of_step_result={"artifacts": [{"name": "else.json", "uri": _EVIL["uri"]}]}),
        1,
    ),
    "the replay names no original": (_replay(lambda new: new["job"].pop("replay_of"), chained), 2),
    "the replay has another mode": (_replay(lambda new: new["job"].update(replay_mode="rerun"), chained), 2),
    "the original was replayed before its end": (_replayed_early, 3),
    "the replay's first event names no original": (
        _replay(lambda new: new["events"][0]["data"].pop("replay_of"), chained),
        3,
    ),
    "the replay names another original": (_replay(_named("job_x")), 3),
    "the replay has another document": (_replay(lambda new: new["job"].update(input_ref=_EVIL)), 3),
    "the replay has another payload": (_replay(lambda new: new["steps"][0].update(payload={"dpi": 300})), 3),
    "the replay has other labels": (_replay(lambda new: new["job"].update(labels={"team": "red"})), 3),
    "the replay carries a step": (_replay(lambda new: new["steps"][0].update(carried=True)), 3),
}


# of the bundle as a whole, with a manifest and totals that fit: (change, level that must catch it)


def _log(number: int, /, **columns: Any) -> Callable[[list[Json]], None]:
    return lambda entries: entries[number].update(columns)


LOGS: dict[str, tuple[Callable[[list[Json]], Any], int]] = {
    "an entry with another actor": (_log(0, actor="somebody"), 2),
    "an entry with another hash": (_log(1, hash="0" * 64), 2),
    "an entry that names another": (_log(1, prev_hash="0" * 64), 2),
    "an entry with another number": (_log(1, seq=3), 2),
    "an entry without a time": (_log(1, at="yesterday"), 2),
    "the last entry gone": (lambda entries: entries.pop(), 1),
    "the first entry changed and gone": (lambda entries: (entries.pop(0), entries[0].update(prev_hash="0" * 64)), 2),
}


def fresh() -> Document:
    return copy.deepcopy(troubled())


def fresh_logs() -> list[Json]:
    return copy.deepcopy(logs())
