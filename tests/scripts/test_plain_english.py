"""The check of texts finds each kind of fault, and passes a text without one."""

from __future__ import annotations

import pytest

from scripts import retired_words
from scripts.plain_english import ROOT, begins_with_verb, findings, refused_phrases

_WORDS = (ROOT / "docs" / "contributing" / "words.md").read_text("utf-8")
_REFUSED = refused_phrases(_WORDS)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("List what is waiting.", "'what is'"),
        ("Maximum active jobs. None: no limit.", "label 'None:'"),
        ("| a cell | -1: no limit |", "label '-1:'"),
        ("A " + "word " * 25 + "ends. Next sentence.", "27 words"),
        ("See [a " + "word " * 25 + "end](page.md).", "28 words"),
    ],
)
def test_a_fault_is_found(text: str, expected: str) -> None:
    (found,) = findings(text, _REFUSED)
    assert expected in found


@pytest.mark.parametrize(
    "text",
    [
        "`what is` in code. " + "`code` " * 30,
        "A list:\n" + "\n".join(f"- item {number} of three words" for number in range(9)),
        "| " + " | ".join(["a cell of words"] * 9) + " |",
        ("Word " * 20 + "ends. ") * 2,
    ],
)
def test_other_texts_pass(text: str) -> None:
    assert not list(findings(text, _REFUSED))


@pytest.mark.parametrize(("text", "expected"), [("Returns it.", True), ("The name.", False), ("This is it.", False)])
def test_a_docstring_of_a_function_begins_with_a_verb(text: str, expected: bool) -> None:
    assert begins_with_verb(text) == expected


def test_an_identifier_with_a_retired_word_is_found() -> None:
    """Also with the table of the page, whose header another commit may change."""
    (found,) = retired_words.findings("def was_told(): ...", retired_words.retired_words(_WORDS))
    assert found.startswith("1: was_told: instead of 'told': ")
