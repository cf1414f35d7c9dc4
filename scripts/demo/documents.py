"""The documents of the demo, and the questions about each."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lucius_client.cli.exits import UsageError
from lucius_client.cli.sources import unique_labels

SAMPLES = Path(__file__).resolve().parents[2] / "samples"
_GENERAL_QUESTIONS = ["What is this document about?", "Who wrote it or whom does it concern?", "Which dates are named?"]

Json = dict[str, Any]


@dataclass(frozen=True)
class Document:
    """A file and the questions about it."""

    #: file name, with a number if several files have the same name
    label: str
    path: Path
    #: `prompt_set` of the payload of the SIS step
    prompt_set: list[Any]


def chosen_documents(docs: str, ask: str) -> list[Document]:
    """Returns the files that DOCS names, by default the samples. ASK replaces every question.

    Raises UsageError if a file is missing, or if DOCS has an open quote.
    """
    questions_of = json.loads((SAMPLES / "questions.json").read_text(encoding="utf-8"))
    paths = _paths(docs) or [SAMPLES / name for name in questions_of]
    labels = unique_labels([str(path) for path in paths])
    return [
        Document(label, path, [ask] if ask else _questions(path, questions_of))
        for label, path in zip(labels, paths, strict=True)
    ]


def _questions(path: Path, questions_of: Json) -> list[Any]:
    if path.parent.resolve() != SAMPLES:
        return list(_GENERAL_QUESTIONS)
    return [{"id": each["id"], "prompt": each["prompt"]} for each in questions_of.get(path.name, [])] or list(
        _GENERAL_QUESTIONS
    )


def _paths(docs: str) -> list[Path]:
    if not docs.strip():
        return []
    if Path(docs).expanduser().is_file():  # a single name with spaces needs no quotes
        return [Path(docs).expanduser()]
    try:
        paths = [Path(name).expanduser() for name in shlex.split(docs)]
    except ValueError as error:
        raise UsageError(f"DOCS: {error}") from error
    missing = [str(path) for path in paths if not path.is_file()]
    if missing:
        raise UsageError(
            f"DOCS: no such file: {', '.join(missing)} (a name with a space needs quotes: "
            "make demo DOCS=\"'my file.pdf' b.png\")"
        )
    return list(dict.fromkeys(paths))
