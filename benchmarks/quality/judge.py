"""Rules for correct results: characters of a page, the passage that proves an answer, and the answer itself."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from rapidfuzz.distance import Levenshtein

from benchmarks.quality.documents import Question

#: maximum characters; a longer answer repeats the page
LONGEST_ANSWER = 300


def character_errors(reference: str, read: str) -> tuple[int, int]:
    """Counts insertions, deletions and substitutions, and the length of the reference. Runs of blanks
    and `|` count as one blank.
    """
    expected, found = _plain(reference), _plain(read)
    return Levenshtein.distance(expected, found), len(expected)


def _plain(text: str) -> str:
    return " ".join(text.replace("|", " ").split())


def is_right(question: Question, answer: str | None) -> bool:
    """Returns `True` if an answer is short and has each expected and no forbidden value. For a question of kind
    `absent` or `near`, returns `True` if the answer is None.
    """
    if question.kind in ("absent", "near"):
        return answer is None
    if answer is None or len(answer) > LONGEST_ANSWER:
        return False
    return has_all(answer, question.expect) and not any(has_all(answer, [wrong]) for wrong in question.forbid)


def rank(question: Question, page: int, passages: list[dict[str, Any]]) -> int | None:
    """Returns the rank, from 1, of the first passage that proves the answer, or None without such a passage."""
    for place, passage in enumerate(passages, 1):
        if passage["page"] == page and has_all(passage["text"], question.evidence):
            return place
    return None


def has_all(text: str, values: Iterable[str]) -> bool:
    """Returns `True` if the text has each value as whole words, without regard to blanks and case."""
    return all(re.search(_pattern(value), text, re.IGNORECASE) for value in values)


def _pattern(value: str) -> str:
    words = r"\s*".join(re.escape(word) for word in value.split())
    before = r"(?<!\d)(?<!\d[.,])" if value[0].isdigit() else r"(?<![^\W\d_])"
    after = r"(?!\d)(?![.,]\d)" if value[-1].isdigit() else r"(?![^\W\d_])"
    return before + words + after
