from collections import Counter
from dataclasses import replace

from shared.core.states import JobStatus, StepStatus
from tests.model.walk import LARGE, Edge, walk


def test_core_and_model_agree_on_everything_that_can_happen() -> None:
    """In every state that a three-step job can reach, core and model agree on all that can happen next."""
    found = walk(LARGE)
    print(f"{found.states} states, {len(found.edges)} cases")
    jobs = Counter(edge.pair.record.job.status for edge in found.edges)
    steps = Counter(step.status for edge in found.edges for step in edge.pair.record.steps)
    assert (set(jobs), set(steps)) == (set(JobStatus), set(StepStatus))
    assert found.states > 500


def test_the_walk_finds_a_core_that_lies() -> None:
    """The comparison is no formality: a model with another rule disagrees."""
    found = walk()
    disagreed = 0
    for edge in found.edges:
        lying = edge.pair.copy()
        # as if an attempt more were allowed
        lying.model.rules = tuple(replace(rule, max_attempts=rule.max_attempts + 1) for rule in lying.model.rules)
        try:
            Edge(lying, edge.occurrence).run()
        except AssertionError:
            disagreed += 1
    assert disagreed > 50
