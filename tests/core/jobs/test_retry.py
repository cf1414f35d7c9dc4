from shared.core.jobs.retry import backoff_s


def wait(failures: int, attempt_no: int = 1) -> float:
    return backoff_s((5, 30, 120), failures, job_id="job_1", step_id="ocr", attempt_no=attempt_no)


def test_each_failure_takes_its_entry_and_the_last_repeats() -> None:
    """Entry k of the list, up to a tenth longer, never shorter."""
    for failures, base in ((1, 5), (2, 30), (3, 120), (9, 120)):
        assert base <= wait(failures) <= base * 1.1


def test_jitter_is_fixed_for_an_attempt_and_differs_between_them() -> None:
    """The wait of an attempt is the same for any number of computations; another attempt has another wait."""
    assert wait(1) == wait(1)
    assert len({wait(1, attempt_no) for attempt_no in range(1, 20)}) > 10
