"""Compares a replay with its original, step by step, by the digests in their RESULTs."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from shared.core.jobs.job import Record, Step
from shared.core.jobs.states import StepStatus
from shared.core.records.canonical import jcs


class Likeness(StrEnum):
    """The result of comparing a step of a replay with the same step of its original."""

    #: equal inputs, equal outputs
    SAME = "SAME"
    #: equal inputs, other outputs
    DIFFERENT = "DIFFERENT"
    #: the step's input differed, so its outputs show nothing about the service
    INPUT_CHANGED = "INPUT_CHANGED"
    #: one of the two steps did not succeed, or sent no digests
    NOT_COMPARABLE = "NOT_COMPARABLE"
    #: the replay has not ended, and the step has not succeeded
    PENDING = "PENDING"


@dataclass(frozen=True)
class ComparedStep:
    """The comparison of one step of the replay."""

    step_id: str
    likeness: Likeness
    #: reason for NOT_COMPARABLE, in words
    why: str | None = None


def compare(original: Record, replay: Record) -> list[ComparedStep]:
    """Returns the comparison of each step of the replay, in order."""
    ended = replay.job.status.terminal
    return [_step(original.step(each.step_id), each, ended=ended) for each in replay.steps]


def is_deterministic(steps: list[ComparedStep]) -> bool | None:
    """Returns `True` if all steps are the same, `False` if a step differs with equal inputs, and None in any other
    case.
    """
    if any(step.likeness is Likeness.DIFFERENT for step in steps):
        return False
    return True if all(step.likeness is Likeness.SAME for step in steps) else None


def _step(old: Step | None, new: Step, *, ended: bool) -> ComparedStep:
    if new.status is not StepStatus.SUCCEEDED:
        if not ended:
            return ComparedStep(new.step_id, Likeness.PENDING)
        return _not_comparable(new, "the step of the replay did not succeed")
    if old is None or old.status is not StepStatus.SUCCEEDED:
        return _not_comparable(new, "the step of the original did not succeed")
    for whose, step in (("original", old), ("replay", new)):
        for name in ("input_digests", "digests"):
            if not _content(step).get(name):
                return _not_comparable(new, f"the RESULT of the {whose} has no {name}")
    if _differ(old, new, "input_digests"):
        return ComparedStep(new.step_id, Likeness.INPUT_CHANGED)
    return ComparedStep(new.step_id, Likeness.DIFFERENT if _differ(old, new, "digests") else Likeness.SAME)


def _not_comparable(step: Step, why: str) -> ComparedStep:
    return ComparedStep(step.step_id, Likeness.NOT_COMPARABLE, why)


def _content(step: Step) -> Any:
    return step.result or {}


def _differ(old: Step, new: Step, name: str) -> bool:
    return jcs(_content(old)[name]) != jcs(_content(new)[name])
