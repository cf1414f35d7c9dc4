"""That each move of the model's walks cites rows that lead from end to end is checked in `tests.model.invariants`;
that these rows are the ones which decided it, in `tests.mutation.test_rows`."""

from shared.api.explain import cite
from shared.core.jobs.occurrences import Control, ControlKind, Redriven, Repaired
from tests.jobs import Story


def test_a_result_that_overtook_its_ack_cites_every_row() -> None:
    """The step's row, then the job's two: taken up, and on to the next step."""
    story = Story()
    story.recorded()
    outcome = story.replied("RESULT")
    assert [(row.machine, row.state, row.event, row.to) for row in cite(outcome.events[0])] == [
        ("step", "INITIATED", "SUCCEED", "SUCCEEDED"),
        ("job", "QUEUED", "ACKED", "IN_PROGRESS"),
        ("job", "IN_PROGRESS", "STEP_SUCCEEDED", "IN_PROGRESS"),
    ]
    assert cite(outcome.events[0])[0].source == "R6: a RESULT can arrive before the ACK"


def test_what_moves_nothing_cites_nothing() -> None:
    """A late reply, a repair and the mark of a redrive are EVENT rows, and no row of a table brought them."""
    story = Story()
    story.recorded()
    late = story.replied("ACK", lease_id="another")
    repaired = story.occurs(Repaired("result:ocr:1"))
    story.after(40).occurs(Control(ControlKind.CANCEL))
    assert [cite(outcome.events[0]) for outcome in (late, repaired)] == [(), ()]
    story.replied("RESULT")
    redriven = story.occurs(Redriven("job_2"))
    assert (redriven.transitioned, cite(redriven.events[0])) == (True, ())
