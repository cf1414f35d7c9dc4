"""No row of the transition tables is without a test that needs it (issue 5, "Done when")."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from shared.core.transitions import JOB_TABLE, STEP_TABLE
from tests.model.walk import LARGE, Edge, walk
from tests.mutation.mutants import Mutant, mutants

#: rows that no occurrence can tell from their absence, and why; a mutant of another row must not survive
REDUNDANT: dict[tuple[str, str], str] = {
    ("IN_PROGRESS", "ACKED"): "finding F3: replies asks the table whether there is a row, and does the same without",
    ("PAUSING", "ACKED"): "finding F3",
    ("CANCELLING", "ACKED"): "finding F3",
    ("QUEUED", "RESUME_UNACKED"): "finding F3: a resume of a job that is not paused never comes to the table",
    ("IN_PROGRESS", "RESUME_ACKED"): "finding F3",
}


def killed(mutant: Mutant, edges: Sequence[Edge]) -> bool:
    """Whether the comparison of core and model, as `tests.model` makes it, fails for the mutant."""
    with mutant.alive():
        for edge in edges:
            try:
                edge.run()
            except AssertionError:
                return True
            except Exception:
                # a move that leads nowhere: the core raises, and so would the test
                return True
    return False


def survivors(found: Sequence[Mutant], edges: Sequence[Edge]) -> list[Mutant]:
    return [mutant for mutant in found if not killed(mutant, edges)]


@pytest.fixture(scope="module")
def edges() -> list[Edge]:
    return walk().edges


def test_every_mutated_row_makes_a_test_fail(edges: list[Edge]) -> None:
    """Each row, taken out or pointed to any other state, makes core and model disagree somewhere."""
    every = list(mutants())
    alive = survivors(every, edges)
    rows = sum(len(rows) for table in (JOB_TABLE, STEP_TABLE) for rows in table.values())
    print(f"{rows} rows, {len(every)} mutants, {len(every) - len(alive)} killed")
    assert len(every) > 500
    unexpected = [mutant for mutant in alive if (mutant.state, mutant.event) not in REDUNDANT]
    assert unexpected == [], "\n".join(map(str, unexpected))
    assert {(mutant.state, mutant.event) for mutant in alive} == set(REDUNDANT), "a redundant row is needed after all"


def test_unmutated_tables_pass(edges: list[Edge]) -> None:
    """The comparison holds for the tables as they are, also after all the mutations above."""
    assert all(edge.run() for edge in edges)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_the_large_walk_kills_no_fewer() -> None:
    """What survives the small walk survives the large one too: the small one misses nothing."""
    small, large = walk().edges, walk(LARGE).edges
    assert survivors(survivors(list(mutants()), small), large) == survivors(list(mutants()), small)
