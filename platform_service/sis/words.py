"""Compares words by their stems and by their rarity in the document."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable

_WORD = re.compile(r"[^\W_]+(?:['\u2019.,:/-][^\W_]+)*")
#: the longest one that leaves three letters
_SUFFIX = re.compile(r"(?<=...)(?:ations?|ments?|ings?|edly|ied|ed|ies|es|ers?|ors?|ly|[sey])$")
#: stop words: common words, and words that phrase a question
_STOP = frozenset(
    re.findall(
        r"\w+",
        """
        a about an and any are as at be been but by can could did do does for from had has have how i if in into is it
        its may me much many must my no not of on or our per shall should so some such than that the their them then
        there these they this those to under upon us was we were what when where which who whom whose why will with
        within would you your much long often state stated say says please tell give list document text according
        """,
    )
)


def stems(text: str) -> list[str]:
    """The stems of the words that carry meaning, in order."""
    words = (word.lower().replace("\u2019", "'").removesuffix("'s") for word in _WORD.findall(text))
    return [_stem(word) for word in words if word not in _STOP]


def _stem(word: str) -> str:
    if not word.isalpha():
        return word.strip(".,:")
    word = _SUFFIX.sub("", word)
    # stopp(ed) and stop have one stem
    return word[:-1] if len(word) > 3 and word[-1] == word[-2] else word


class Rarity:
    """The weight of a word: the fewer passages contain it, the higher; highest for a word that is in none."""

    def __init__(self, passages: Iterable[str]) -> None:
        stem_sets = [set(stems(passage)) for passage in passages]
        self._passages = len(stem_sets)
        self._with_word = Counter(stem for stems_ in stem_sets for stem in stems_)

    def weight(self, stem: str) -> float:
        return math.log(1 + (self._passages + 1) / (self._with_word[stem] + 0.5))

    def overlap(self, asked: Iterable[str], text: Iterable[str]) -> float:
        """The share of the asked stems that the text has, by weight: 0 to 1."""
        asked_stems, text_stems = set(asked), set(text)
        total = sum(self.weight(stem) for stem in asked_stems)
        return sum(self.weight(stem) for stem in asked_stems & text_stems) / total if total else 0.0
