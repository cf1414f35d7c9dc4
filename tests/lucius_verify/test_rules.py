"""A change of the outcome of the rules is noticed, and raises `RULES`."""

from __future__ import annotations

import pytest

from lucius_verify import possible, verify
from lucius_verify.bundle import Bundle
from lucius_verify.histories import History
from lucius_verify.report import State
from lucius_verify.signed_heads import SignedHeads
from lucius_verify.statements import Keys
from shared.core.jobs import replies, retry
from shared.core.jobs.history import RULES, EventType
from shared.core.jobs.states import JobStatus
from shared.core.jobs.transitions import JOB_CREATION, JOB_TABLE, JobTrigger, TargetState
from tests.lucius_verify.record import RECORDED, file
from tests.lucius_verify.walks import walks


@pytest.fixture(scope="module")
def recorded() -> list[History]:
    return list(Bundle(file(RULES), SignedHeads(Keys(()))).histories())


def test_the_recorded_histories_follow_from_todays_rules() -> None:
    """If this fails, the same rows and the same occurrence give another result: raise RULES and record it anew."""
    assert file(RULES) in RECORDED.iterdir(), "run python -m tests.lucius_verify.record"
    report = verify(file(RULES))
    assert report.broken is None, report.to_text()
    assert (report.levels[3].state, report.jobs > 100) == (State.HOLDS, True)


@pytest.mark.parametrize(
    ("place", "name", "value"),
    [
        (retry, "JITTER", 0.2),
        (replies, "MAX_IGNORED_EVENTS", 1),
        (replies, "HEARTBEAT_SHARE_OF_LEASE", 2.0),
    ],
)
def test_a_changed_number_is_noticed(
    recorded: list[History], monkeypatch: pytest.MonkeyPatch, place: object, name: str, value: float
) -> None:
    """A backoff, a limit, a share of the lease."""
    monkeypatch.setattr(place, name, value)
    assert any(possible.execute(history)[1] for history in recorded)


def test_a_changed_row_of_the_table_is_noticed(recorded: list[History], monkeypatch: pytest.MonkeyPatch) -> None:
    """A pause that is refused while a job is in progress."""
    rows = {each: row for each, row in JOB_TABLE[JobStatus.IN_PROGRESS].items() if each is not JobTrigger.PAUSE}
    monkeypatch.setitem(JOB_TABLE, JobStatus.IN_PROGRESS, rows)  # type: ignore[arg-type]
    assert any(possible.execute(history)[1] for history in recorded)


def test_a_changed_way_of_creation_is_noticed(recorded: list[History], monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs that wait for their quotas in another state."""
    monkeypatch.setitem(JOB_CREATION, "JOB_STAGED", TargetState(JobStatus.QUEUED, ""))  # type: ignore[arg-type]
    assert any(possible.execute(history)[1] for history in recorded)


def test_every_type_of_event_can_be_executed() -> None:
    """A new type needs its occurrence in `lucius_verify.possible`, or it would never verify."""
    created = {EventType.JOB_CREATED, EventType.JOB_WITHDRAWN}
    assert possible.executable() | created == set(EventType)


def test_what_the_app_does_can_be_executed() -> None:
    """Histories that are not recorded."""
    for document in walks(4, first=5_000):
        history = History.of(document, document["events"])
        assert possible.execute(history) == (len(history.events), None)
