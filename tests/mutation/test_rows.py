"""Every row of the transition tables has a test that needs it."""

from __future__ import annotations

from collections import defaultdict

import pytest

from shared.core.jobs.transitions import JOB_TABLE, STEP_TABLE
from tests.model.invariants import check_citation
from tests.model.walk import SHAPES, Edge, walk
from tests.mutation.mutants import Mutant, Place, mutants

#: rows whose absence no occurrence can show, with the reason; a mutant of any other row must not survive
REDUNDANT: dict[Place, str] = {}

Cases = dict[Place, list[Edge]]


@pytest.fixture(scope="module")
def cases() -> Cases:
    """Returns every comparison of `tests.model`, by the rows that it reads: no other row can make a difference."""
    found: Cases = defaultdict(list)
    for edge in (edge for shape in SHAPES for edge in walk(shape).edges):
        for event in edge.events:
            # the rows that explain cites are among those that the core read
            cited = check_citation(event)
            assert {(row.machine, row.state, row.event) for row in cited} <= edge.places
        for place in edge.places:
            found[place].append(edge)
    return found


def killed(mutant: Mutant, cases: Cases) -> bool:
    """Returns whether the comparison of core and model fails for the mutant, as it would in `tests.model`."""
    with mutant.alive():
        for edge in cases[mutant.place]:
            try:
                edge.run()
            except Exception:
                # they disagree, or the core raises where its tables lead nowhere
                return True
    return False


def test_every_mutated_row_makes_a_test_fail(cases: Cases) -> None:
    """Each row, taken out or pointed to any other state, makes core and model disagree somewhere."""
    every = list(mutants())
    alive = [mutant for mutant in every if not killed(mutant, cases)]
    rows = sum(len(rows) for table in (JOB_TABLE, STEP_TABLE) for rows in table.values())
    print(f"{rows} rows, {len(every)} mutants, {len(every) - len(alive)} killed")
    assert len(every) > 500
    unexpected = [str(mutant) for mutant in alive if mutant.place not in REDUNDANT]
    assert unexpected == []
    assert {mutant.place for mutant in alive} == set(REDUNDANT), "a redundant row is needed after all"


def test_unmutated_tables_pass(cases: Cases) -> None:
    """The comparison holds again for the tables as they are, after all the mutations above."""
    assert all(edge.run() for edges in cases.values() for edge in edges[:10])
