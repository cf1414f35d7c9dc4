"""Bounds of the results of `make quality`, and its own rules."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.measured import RECORDED
from benchmarks.quality import judge, sensitivity
from benchmarks.quality.__main__ import main
from benchmarks.quality.documents import DEVELOPMENT_SEED, HALVES, Question, make_documents
from benchmarks.quality.measure import Figures, Services, measure
from benchmarks.quality.model_endpoint import serve
from benchmarks.quality.scans import CONDITIONS
from platform_service.embedding import passages, structure
from platform_service.ocr import layout, pages
from platform_service.sis import answer_kind, candidates, retrieval


@pytest.fixture(scope="module")
def services() -> Iterator[Services]:
    with serve() as recording:
        yield Services(recording)


def test_documents_with_a_text_layer_stay_as_good_as_they_are(services: Services) -> None:
    """The development half without scans. Recorded: docs/explanation/performance/quality.json."""
    found = measure("development", DEVELOPMENT_SEED, services, scans=False).summary()
    right = found["answers_right"]
    assert right["absent"] >= 0.9
    assert right["table"] >= 0.95
    assert right["two_sentences"] >= 0.85
    assert right["all"] >= 0.96
    assert found["near_misses_null"]["all"] >= 0.75
    assert found["passage_top_3"]["all"] >= 0.97
    assert found["answers_right_model"]["all"] >= 0.97


@pytest.mark.long
@pytest.mark.parametrize("half", HALVES)
def test_the_command_reports_scans_and_answers_that_stay_good(half: str, tmp_path: Path) -> None:
    """Both halves with their scans, the held-out one from the seed of the recorded figures."""
    seed = json.loads((RECORDED / "quality.json").read_text())["after"]["figures"]["seed"]
    assert main(["--half", half, "--seed", seed, "--failures", "--json", str(tmp_path / "figures.json")]) == 0
    found = json.loads((tmp_path / "figures.json").read_text())["quality"]["figures"][half]
    errors = found["character_error_rate"]
    assert errors["all"] <= 0.02
    assert max(errors.values()) <= 0.06
    assert found["answers_right"]["absent"] >= 0.9
    assert found["answers_right"]["all"] >= 0.85
    assert found["near_misses_null"]["all"] >= 0.68
    assert found["passage_top_3"]["all"] >= 0.9


def test_each_constant_is_changed_alone_and_restored(services: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    """The services are measured as they are, then once for each value, whose constant all modules see."""
    seen = []

    def record(*_: object, **__: object) -> Figures:
        seen.append({**constants_now(), **services.payloads["embedding"], **services.payloads["sis"]})
        return Figures(questions=Counter(text=1, absent=1, near=1))

    monkeypatch.setattr(sensitivity, "measure", record)
    before = constants_now()
    named = [(name, value) for name, value, _ in sensitivity.compare(services)][1:]
    for (name, value), state in zip(named, seen[len(sensitivity.SEEDS) :: len(sensitivity.SEEDS)], strict=True):
        assert {key for key in state if state[key] != before.get(key)} == {name}
        assert f"{state[name]:g}" == value
    assert constants_now() == before
    assert services.payloads == {"embedding": {}, "sis": {}}


def constants_now() -> dict[str, object]:
    modules = [structure, candidates, layout, pages, passages, retrieval, answer_kind]
    return {name: vars(module)[name] for module in modules for name in sensitivity.VALUES if name in vars(module)}


def test_there_are_enough_documents_and_questions() -> None:
    """At least 10 documents of six kinds, and 100 questions of each half, of every kind."""
    for half in HALVES:
        documents = make_documents(half, "any")
        assert len(documents) >= 10
        questions = [question for document in documents for question in document.questions]
        assert len(questions) >= 100
        kinds = {"text", "two_sentences", "table", "field", "absent", "near"}
        assert {question.kind for question in questions} == kinds
        assert documents == make_documents(half, "any"), "a seed makes the same documents again"
    assert {each.turned for each in CONDITIONS} == {0, 90, 180, 270}


@pytest.mark.parametrize(
    ("answer", "is_right"),
    [
        ("Pump: 4.50 euros", True),
        ("Pump: 4.50\neuros", True),
        ("Pump: 14.50 euros", False),
        ("Pump: 4.505 euros", False),
        ("Pump: 4.50 euros, hose: 9.00 euros", False),
        ("Pump: 4.50 euros" + " and so on" * 40, False),
        (None, False),
    ],
)
def test_a_right_answer_has_the_value_alone(answer: str | None, is_right: bool) -> None:
    """Blanks do not matter; digits around the value, a neighbour's value and the length do."""
    question = Question("How much is the pump?", "table", expect=("4.50 euros",), forbid=("9.00 euros",))
    assert judge.is_right(question, answer) is is_right


def test_an_absent_answer_is_null() -> None:
    question = Question("Who is the mayor?", "absent")
    assert judge.is_right(question, None)
    assert not judge.is_right(question, "Agnes Marlow")


def test_character_errors_are_edits() -> None:
    """A wrong, a missing and an additional letter are three; blanks, line breaks and rules of tables are none."""
    assert judge.character_errors("Total amount due", "Tota1 amunt  duee") == (3, 16)
    assert judge.character_errors("Part Price", "Part | \nPrice") == (0, 10)
