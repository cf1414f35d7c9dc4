from shared.core.jobs.states import JobStatus, StepStatus
from shared.core.jobs.transitions import JOB_TABLE, STEP_TABLE


def test_every_state_has_its_rows() -> None:
    """Each state is a key of its table, so that no state is forgotten."""
    assert set(JOB_TABLE) == set(JobStatus)
    assert set(STEP_TABLE) == set(StepStatus)


def test_terminal_states_have_no_rows() -> None:
    """Nothing leads out of a terminal state."""
    for table in (JOB_TABLE, STEP_TABLE):
        for state, rows in table.items():
            assert (not rows) == state.terminal, state


def test_rows_lead_to_known_states_and_name_their_source() -> None:
    """Each row names a state of its own machine and its rule."""
    for status, table in ((JobStatus, JOB_TABLE), (StepStatus, STEP_TABLE)):
        for rows in table.values():
            for row in rows.values():
                assert row.to in set(status)
                assert ":" in row.source


def test_every_state_is_reached() -> None:
    """From the first state, rows lead to every other."""
    for first, table in ((JobStatus.QUEUED, JOB_TABLE), (StepStatus.PENDING, STEP_TABLE)):
        reached, edge = {first}, [first]
        while edge:
            for row in table[edge.pop()].values():
                if row.to not in reached:
                    reached.add(row.to)
                    edge.append(row.to)
        assert reached == set(table)
