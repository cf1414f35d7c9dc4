"""The record of comparisons (docs/contributing/emulators/compared.md) names existing tests, and reasons."""

from __future__ import annotations

from pathlib import Path

from scripts.generate.comparisons import State, read

ROOT = Path(__file__).resolve().parents[1]


def test_a_repaired_difference_has_its_test_and_another_its_reason() -> None:
    judges, differences = read()
    assert judges
    for one in differences:
        if one.state is State.REPAIRED:
            path, _, function = one.test.partition("::")
            assert f"{function}(" in (ROOT / path).read_text(encoding="utf-8"), f"{one.what}: no {one.test}"
        else:
            assert one.why, one.what
