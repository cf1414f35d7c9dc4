"""Documents and questions of the demo."""

from __future__ import annotations

from pathlib import Path

import pytest

from lucius_client.cli.exits import UsageError
from scripts.demo.documents import SAMPLES, chosen_documents


def test_without_docs_it_is_the_samples_with_their_questions() -> None:
    """The demo uses every sample with its questions of `questions.json`, without the expected answers."""
    chosen = chosen_documents("", "")
    assert {document.path.suffix for document in chosen} == {".pdf", ".png"}
    assert all(set(prompt) == {"id", "prompt"} for document in chosen for prompt in document.prompt_set)


def test_names_with_spaces(tmp_path: Path) -> None:
    """A name with a space is quoted among others; alone it needs no quotes."""
    odd, plain = tmp_path / "my file.pdf", tmp_path / "b.png"
    odd.touch()
    plain.touch()
    assert [document.path for document in chosen_documents(f"'{odd}' {plain}", "")] == [odd, plain]
    assert [document.path for document in chosen_documents(str(odd), "")] == [odd]


def test_ask_replaces_every_question() -> None:
    """ASK is the only question about each document."""
    assert [document.prompt_set for document in chosen_documents("", "Why?")] == [["Why?"]] * 3


def test_a_file_of_the_users_own_gets_general_questions(tmp_path: Path) -> None:
    """A file that is not a sample gets questions that suit any document."""
    (tmp_path / "invoice.png").touch()
    (document,) = chosen_documents(str(tmp_path / "invoice.png"), "")
    assert document.prompt_set
    assert all(isinstance(prompt, str) for prompt in document.prompt_set)


def test_files_of_one_name_have_labels_of_their_own(tmp_path: Path) -> None:
    """Two files of one name have different labels."""
    paths = [tmp_path / "a" / "x.pdf", tmp_path / "b" / "x.pdf"]
    for path in paths:
        path.parent.mkdir()
        path.touch()
    labels = [document.label for document in chosen_documents(" ".join(map(str, paths)), "")]
    assert labels == ["x.pdf", "x.pdf (2)"]


@pytest.mark.parametrize("docs", ["nowhere.pdf", f"{SAMPLES}/invoice.png nowhere.pdf", "'open"])
def test_a_missing_file_is_named(docs: str) -> None:
    """A missing file or an open quote is an error of one line."""
    with pytest.raises(UsageError, match=r"^DOCS: ") as caught:
        chosen_documents(docs, "")
    assert "\n" not in str(caught.value)
