"""EMBEDDING: passages and their vectors."""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lucius_service.errors import FailedFinal
from platform_service.embedding.passages import paragraphs, sentences, split_passages
from platform_service.embedding.source_text import TextPage
from platform_service.embedding.step import EmbeddingStep
from tests.lucius_service.step_runner import StepRunner

STORY = (
    "The harbour was quiet in the morning. Nobody had seen the ferry leave. At noon the bell rang twice, and the gates "
    "were opened by the watchman. He had waited since dawn.\n\nIn the evening it rained. The boats stayed in."
)


def test_vectors_have_text_page_and_length_one(runner: StepRunner, embedding: EmbeddingStep) -> None:
    """Each passage of a plain text has its page, its index and a vector of 256 numbers with length 1."""
    run = runner.run(embedding, f"{STORY}\f{STORY}".encode(), {"chunk_size": 150, "overlap": 40})
    chunks = run.result["chunks"]
    assert list(range(len(chunks))) == [chunk["index"] for chunk in chunks]
    assert {1, 2} == {chunk["page"] for chunk in chunks}
    assert (2, len(chunks), 256) == tuple(run.outcome.metrics[name] for name in ("pages", "chunks", "dimensions"))
    for chunk in chunks:
        assert len(chunk["vector"]) == 256
        assert pytest.approx(1.0, abs=1e-3) == np.linalg.norm(chunk["vector"])


def test_a_paraphrase_is_nearer_than_another_subject(runner: StepRunner, embedding: EmbeddingStep) -> None:
    """The vector of a paraphrase is nearer than that of another subject."""
    texts = [
        "The tenant pays the rent every month.",
        "Monthly rent is paid by the lessee.",
        "Cats sleep on warm roofs.",
    ]
    rows = [runner.run(embedding, text.encode()).result["chunks"][0]["vector"] for text in texts]
    rent, paraphrase, cats = (np.array(row) for row in rows)
    assert rent @ paraphrase > rent @ cats + 0.2


def test_text_json_keeps_its_pages(runner: StepRunner, embedding: EmbeddingStep) -> None:
    """Passages carry the page number of OCR's text.json; pages without text have none."""
    pages = [{"page": 3, "text": "Third page."}, {"page": 4, "text": ""}, {"page": 9, "text": "Ninth page."}]
    run = runner.run(embedding, json.dumps({"format": "lucius.text/1", "pages": pages}).encode())
    assert [(c["page"], c["text"]) for c in run.result["chunks"]] == [(3, "Third page."), (9, "Ninth page.")]


def test_the_result_names_the_document_and_not_the_workspace(runner: StepRunner, embedding: EmbeddingStep) -> None:
    """So a replay, which has its own workspace, writes the same bytes."""
    text = {"format": "lucius.text/1", "input": {"uri": "https://a/scan.png"}, "pages": [{"page": 1, "text": "One."}]}
    runs = [runner.run(embedding, json.dumps(text).encode()) for _ in range(2)]
    assert runs[0].outcome.result_ref != runs[1].outcome.result_ref
    assert runs[0].result == runs[1].result
    assert runs[0].result["input"] == {"uri": "https://a/scan.png"}
    plain = runner.run(embedding, b"One.", name="plain.txt")
    assert plain.result["input"]["uri"].endswith("/plain.txt")


def test_half_a_surrogate_pair_is_replaced(runner: StepRunner, embedding: EmbeddingStep) -> None:
    """JSON may contain half a surrogate pair, which UTF-8 cannot encode."""
    data = json.dumps({"format": "lucius.text/1", "pages": [{"page": 1, "text": "Broken \ud83d sign."}]}).encode()
    assert runner.run(embedding, data).result["chunks"][0]["text"] == "Broken ? sign."


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"   \n \f ", "NO_TEXT_FOUND"),
        (b"\xff\xfe\x00\x01", "INPUT_TYPE_UNSUPPORTED"),
        (b"%PDF-1.7 ...", "INPUT_TYPE_UNSUPPORTED"),
        (b'{"some": "json"}', "INPUT_TYPE_UNSUPPORTED"),
        (b'{"format": "lucius.text/1"}', "INPUT_BROKEN"),
        (b'{"a":' * 200_000, "INPUT_BROKEN"),
        (b'{"format": "lucius.text/1", "pages": ' + b"[" * 200_000, "INPUT_BROKEN"),
        (b'{"format": "lucius.text/1", "pages": []}', "NO_TEXT_FOUND"),
    ],
)
def test_bad_input_fails_for_good(data: bytes, code: str, runner: StepRunner, embedding: EmbeddingStep) -> None:
    """An input that is not text, or has no text, has its code."""
    with pytest.raises(FailedFinal) as failed:
        runner.run(embedding, data)
    assert code == failed.value.code


def test_lines_broken_by_the_margin_are_joined() -> None:
    prose = (
        "The lease begins on the first of May and ends three years later unless it is re-\n"
        "newed by both parties in writing at least two months before the end of the term.\n"
        "Short closing line.\n"
        "A new paragraph begins here and is also long enough to have been broken by its\n"
        "margin."
    )
    assert len([each for each in paragraphs(prose) if "margin" in each or "renewed" in each]) == 2
    assert paragraphs(prose)[0].startswith("The lease begins")
    assert (
        "|".join(paragraphs("Invoice number: 12\nDate: 3 May\nTotal: 40.00"))
        == "Invoice number: 12|Date: 3 May|Total: 40.00"
    )


def test_lines_of_a_narrow_column_are_joined() -> None:
    """A column of 11 point Courier on half a page has 34 characters, and its lines as few as 25."""
    lines = ["Wipe the rollers with a cloth", "soaked in white spirit;", "other solvents attack the", "rubber."]
    assert paragraphs("\n".join(lines)) == [" ".join(lines)]


def test_lines_of_an_address_stay_apart() -> None:
    """They are equally long, but too short for a margin to have broken them."""
    assert paragraphs("Agnes Marlow\n9 Quay Road\nDover CT16") == ["Agnes Marlow", "9 Quay Road", "Dover CT16"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It rained. We left.", ["It rained.", "We left."]),
        ("Dr. Wren came at 7.30 p.m. on Monday.", ["Dr. Wren came at 7.30 p.m. on Monday."]),
        ("4. Maintenance", ["4. Maintenance"]),
        ('He said "Stop!" Then he left.', ['He said "Stop!"', "Then he left."]),
        ("Is it 6.5? Yes.", ["Is it 6.5?", "Yes."]),
    ],
)
def test_sentences(text: str, expected: list[str]) -> None:
    """Full stops of abbreviations, numbers and headings do not end a sentence."""
    assert expected == sentences(text)


@settings(deadline=None)
@given(
    st.lists(st.text(st.sampled_from("abc XY.,!?\n-1"), max_size=400), min_size=1, max_size=4),
    st.integers(100, 400),
    st.integers(0, 400),
)
def test_passages_lose_nothing_and_keep_to_their_size(texts: list[str], chunk_size: int, overlap: int) -> None:
    """For any text every letter of a page is in its passages in order, and no passage is too long."""
    pages = [TextPage(number, text) for number, text in enumerate(texts, 1)]
    passages = split_passages(pages, chunk_size, overlap)
    assert list(range(len(passages))) == [passage.index for passage in passages]
    assert all(0 < len(passage.text) <= chunk_size for passage in passages)
    without_overlap = split_passages(pages, chunk_size, 0)
    for page in pages:
        units = "".join("".join(each.text.split()) for each in without_overlap if each.page == page.number)
        assert "".join("".join(paragraphs(page.text)).split()) == units


def test_passages_overlap_by_whole_sentences() -> None:
    """A passage begins with the last sentences of the one before."""
    text = " ".join(f"Sentence number {number} is here." for number in range(1, 13))
    passages = split_passages([TextPage(1, text)], 150, 60)
    assert len(passages) > 2
    for before, after in pairwise(passages):
        assert sentences(before.text)[-2:] == sentences(after.text)[:2]
