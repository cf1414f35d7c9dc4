from dataclasses import replace

import pytest

from shared.core.jobs.states import JobStatus, StepStatus
from tests.model.walk import LONG_CAPPED, LONG_SEQUENCE, SEQUENCE, SHAPES, WIDE_GROUP, Edge, Shape, walk


@pytest.mark.parametrize("shape", SHAPES, ids=["sequence", "group", "capped", "capped sequence"])
def test_core_and_model_agree_on_everything_that_can_happen(shape: Shape) -> None:
    """In every state that the job can reach, core and model agree on all that can happen next."""
    found = walk(shape)
    print(f"{found.states} states, {len(found.edges)} cases")
    jobs = {edge.pair.record.job.status for edge in found.edges}
    steps = {step.status for edge in found.edges for step in edge.pair.record.steps}
    assert (jobs, steps) == (set(JobStatus), set(StepStatus))
    assert found.states > 100


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("shape", [LONG_SEQUENCE, WIDE_GROUP, LONG_CAPPED], ids=["sequence", "group", "capped"])
def test_core_and_model_agree_on_larger_jobs(shape: Shape) -> None:
    """Three steps one after another; three steps side by side after one that runs alone; two steps with caps."""
    found = walk(shape)
    print(f"{found.states} states, {len(found.edges)} cases")


def test_the_walk_finds_a_core_that_lies() -> None:
    """The comparison is no formality: a model with another rule disagrees."""
    disagreed = 0
    for edge in walk(SEQUENCE).edges:
        lying = edge.pair.copy()
        # as if an attempt more were allowed
        lying.model.rules = tuple(replace(rule, max_attempts=rule.max_attempts + 1) for rule in lying.model.rules)
        try:
            Edge(lying, edge.occurrence).run()
        except AssertionError:
            disagreed += 1
        if disagreed > 50:
            return
    raise AssertionError(f"{disagreed} cases disagree")
