import json
from dataclasses import replace
from typing import Any

import pytest
from pydantic import ValidationError

from shared.contracts.protocol import ProtocolDefinition
from shared.core.jobs.directive import directive_of, encode_directive
from shared.core.jobs.history import Origin
from shared.core.jobs.job import Record
from shared.core.jobs.occurrences import Control, ControlKind
from shared.core.jobs.redrive import plan_redrive
from shared.core.jobs.states import JobStatus, StepStatus
from shared.core.jobs.verdict import VerdictKind, verdict_for
from shared.operations.jobs.starting import orchestration_input
from tests.jobs import Story, planned


def grouped(*indices: int) -> Story:
    """The steps with these indices side by side; without any: OCR and EMBEDDING, then SIS."""
    record = planned()
    steps = tuple(replace(step, group=0) if step.step_index in (indices or (0, 1)) else step for step in record.steps)
    return Story(Record(record.job, steps))


def sent(story: Story, step_id: str) -> dict[str, Any]:
    """The directive of the step's attempt, as it is on the bus."""
    step = story.step(step_id)
    body: dict[str, Any] = json.loads(encode_directive(directive_of(story.record, step)))
    return body


def verdict(story: Story, step_id: str) -> VerdictKind:
    return verdict_for(story.record, step_id, "job_1", story.now).kind


def test_siblings_run_at_the_same_time_and_the_next_step_waits_for_all() -> None:
    """Both are dispatched from the job's input; the step behind them comes after the slower one."""
    story = grouped()
    story.recorded("ocr")
    story.recorded("embedding")
    assert story.step("ocr").input_ref == story.step("embedding").input_ref == story.record.job.input_ref
    assert (story.record.job.current_step_id, story.record.job.current_step_index) == ("ocr", 0)
    story.after(1).replied("RESULT", "embedding")
    assert story.recorded("sis").reason_code == "EARLIER_STEP_UNSETTLED"
    story.after(1).replied("RESULT", "ocr")
    assert story.recorded("sis").transitioned
    assert story.step("sis").input_ref == story.step("embedding").result_ref
    story.replied("RESULT", "sis")
    assert story.record.job.status is JobStatus.SUCCEEDED


def test_after_a_group_the_next_step_gets_the_results_of_all() -> None:
    """By step id, where a step named no result its workspace; `input_ref` is the last one's. Others have none."""
    story = grouped()
    story.recorded("ocr")
    story.recorded("embedding")
    assert "input_refs" not in sent(story, "ocr")
    story.replied("RESULT", "embedding")
    story.after(1).replied("RESULT", "ocr", result_ref=None)
    story.recorded("sis")
    directive = sent(story, "sis")
    assert directive["input_refs"] == {
        "ocr": story.step("ocr").workspace_ref,
        "embedding": story.step("embedding").result_ref,
    }
    assert directive["input_ref"] == directive["input_refs"]["embedding"]
    assert sent(story, "sis") == directive
    alone = Story()
    alone.recorded("ocr")
    alone.replied("RESULT", "ocr")
    alone.recorded("embedding")
    assert "input_refs" not in sent(alone, "embedding")


@pytest.mark.parametrize(
    ("group", "final"),
    [
        ((0, 1), {"ocr": (False, None), "embedding": (False, None), "sis": (True, None)}),
        ((1, 2), {"ocr": (False, None), "embedding": (True, 0), "sis": (True, 1)}),
        ((0, 1, 2), {"ocr": (True, 0), "embedding": (True, 1), "sis": (True, 2)}),
    ],
)
def test_the_last_group_makes_the_jobs_result(
    group: tuple[int, ...], final: dict[str, tuple[bool, int | None]]
) -> None:
    """`final` is a JSON bool in every directive, and every directive says where the caller wants the job's output."""
    story = grouped(*group)
    directives = {step.step_id: sent(story, step.step_id) for step in story.record.steps}
    assert {step_id: (each["final"], each.get("final_index")) for step_id, each in directives.items()} == final
    assert {json.dumps(sent(story, step.step_id)["output_ref"]) for step in story.record.steps} == {
        json.dumps(story.record.job.output_ref)
    }


@pytest.mark.parametrize("first", ["embedding", "sis"])
def test_the_output_of_a_last_group_is_that_of_its_first_step(first: str) -> None:
    """Whichever ends first, and wherever the other one wrote."""
    story = grouped(1, 2)
    story.recorded("ocr")
    story.replied("RESULT", "ocr", output_ref="https://account.blob.core.windows.net/results/none-of-its-business")
    for step_id in ("embedding", "sis"):
        story.recorded(step_id)
    for step_id in (first, "sis" if first == "embedding" else "embedding"):
        place = f"https://account.blob.core.windows.net/results/{step_id}.json"
        story.after(1).replied("RESULT", step_id, output_ref=place)
    assert story.record.job.final_output == {"uri": "https://account.blob.core.windows.net/results/embedding.json"}


def test_a_redrive_leaves_the_result_of_a_last_group_where_it_was_written() -> None:
    """The step that succeeded is carried, so `final_output` names the blob under the old job's id."""
    story = grouped(1, 2)
    story.recorded("ocr")
    story.replied("RESULT", "ocr")
    written = "https://account.blob.core.windows.net/results/job_1/embedding/vectors.json"
    for step_id in ("embedding", "sis"):
        story.recorded(step_id)
    story.after(1).replied("RESULT", "embedding", output_ref=written)
    story.replied("RESULT", "sis", status="FAILED_FINAL", error={"code": "BROKEN", "message": "m"})
    new, _ = plan_redrive(
        story.record,
        job_id="job_2",
        created_at=story.now,
        allowed=None,
        origin=Origin(cause_id="c", actor="a", source="s"),
        salt="",
    )
    taken_up = Story(new)
    taken_up.recorded("sis")
    taken_up.after(1).replied("RESULT", "sis")
    assert taken_up.record.job.status is JobStatus.SUCCEEDED
    assert taken_up.record.job.final_output == {"uri": written}


def test_a_final_failure_takes_the_siblings_in_flight_with_it() -> None:
    """The job fails at once; the sibling is CANCELLED, its reply is late, later steps stay PENDING."""
    story = grouped()
    story.recorded("ocr")
    story.recorded("embedding")
    story.after(1).replied("RESULT", "ocr", status="FAILED_FINAL", error={"code": "BROKEN", "message": "m"})
    assert (story.record.job.status, story.record.job.error_code) == (JobStatus.FAILED_FINAL, "BROKEN")
    assert [step.status for step in story.record.steps] == [
        StepStatus.FAILED_FINAL,
        StepStatus.CANCELLED,
        StepStatus.PENDING,
    ]
    assert story.after(1).replied("RESULT", "embedding").reason_code == "JOB_TERMINAL"


def test_paused_means_that_no_sibling_is_in_flight() -> None:
    """PAUSING until the last of them ends; meanwhile a sibling that could start waits."""
    story = grouped()
    story.recorded("ocr")
    story.recorded("embedding")
    story.occurs(Control(ControlKind.PAUSE))
    story.after(1).replied("RESULT", "ocr", status="FAILED_RETRY")
    assert story.record.job.status is JobStatus.PAUSING
    assert verdict(story.after(100), "ocr") is VerdictKind.BACKOFF
    story.after(1).replied("RESULT", "embedding")
    assert story.record.job.status is JobStatus.PAUSED
    assert verdict(story, "ocr") is VerdictKind.PARK


def test_cancelled_when_the_last_sibling_in_flight_has_ended() -> None:
    """CANCELLING through the end of one, CANCELLED with the other; a sibling that has not begun ends at once."""
    story = grouped()
    story.recorded("ocr")
    story.recorded("embedding")
    story.occurs(Control(ControlKind.CANCEL))
    story.after(1).replied("RESULT", "ocr", status="FAILED_FINAL")
    assert story.record.job.status is JobStatus.CANCELLING
    story.after(1).replied("RESULT", "embedding")
    assert story.record.job.status is JobStatus.CANCELLED
    assert story.record.job.error_code is None


def test_each_sibling_waits_in_an_orchestration_of_its_own() -> None:
    """The job's plan names the group as a list; replies are raised to `{instance}.s{index}`."""
    story = grouped()
    assert orchestration_input(story.record)["steps"] == [["ocr", "embedding"], "sis"]
    assert [story.record.instance_of(step) for step in story.record.steps] == ["job_1.s0", "job_1.s1", "job_1"]


@pytest.mark.parametrize(
    ("parallel", "message"),
    [
        ([["a", "x"]], "names unknown steps"),
        ([["a", "c"]], "adjacent"),
        ([["a", "b"], ["b", "c"]], "names a step twice"),
        ([["a"]], "at least 2"),
    ],
)
def test_groups_that_make_no_sense_are_refused(parallel: list[list[str]], message: str) -> None:
    """A protocol names neighbouring steps, each in one group at most."""
    steps = [{"step_id": name, "step_type": "OCR", "service": "ocr"} for name in "abc"]
    with pytest.raises(ValidationError, match=message):
        ProtocolDefinition.model_validate(
            {"protocol_id": "p", "version": 1, "request_type": "P", "steps": steps, "parallel": parallel}
        )
