"""Compares words by their stems and by their rarity in the document."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from copy import copy

_WORD = re.compile(r"[^\W_]+(?:['\u2019.,:/-][^\W_]+)*")
#: the longest one that leaves three letters
_SUFFIX = re.compile(r"(?<=...)(?:ations?|ments?|ings?|edly|ied|ed|ies|es|ers?|ors?|ly|[sey])$")
#: stop words: common words, and words that phrase a question
STOP = frozenset(
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
    """Returns the stems of the words that carry meaning, in order."""
    return [stem(word) for word in content_words(text)]


def content_words(text: str) -> list[str]:
    """Returns the words that carry meaning, in lower case and in order."""
    return [word for word in plain_words(text) if word not in STOP]


def tokens(text: str) -> list[str]:
    """Returns the words of a text as they are written."""
    return _WORD.findall(text)


def plain_words(text: str) -> list[str]:
    """Returns the words of a text in lower case, without the possessive `'s`."""
    return [word.lower().replace("\u2019", "'").removesuffix("'s") for word in tokens(text)]


def stem(word: str) -> str:
    """Returns the stem of a lower-case word."""
    if not word.isalpha():
        return word.strip(".,:")
    word = _SUFFIX.sub("", word)
    # stopp(ed) and stop have one stem
    return word[:-1] if len(word) > 3 and word[-1] == word[-2] else word


#: of a stem those of similar words, with the cosine of both
Likeness = Mapping[str, Mapping[str, float]]


class Rarity:
    """The weight of a word. The fewer passages contain the word, the higher its weight. A word that no passage contains
    has the highest weight.
    """

    def __init__(self, passages: Iterable[str]) -> None:
        stem_sets = [set(stems(passage)) for passage in passages]
        self._passages = len(stem_sets)
        self._with_word = Counter(each for stems_ in stem_sets for each in stems_)
        self._like: Likeness = {}

    def with_likeness(self, like: Likeness) -> Rarity:
        """Returns a copy whose `overlap` also counts similar stems. A stem that the text lacks counts in part, by its
        highest similarity to a stem of the text.
        """
        found = copy(self)
        found._like = like
        return found

    def __contains__(self, each: str) -> bool:
        return each in self._with_word

    def weight(self, each: str) -> float:
        return math.log(1 + (self._passages + 1) / (self._with_word[each] + 0.5))

    def overlap(self, asked: Iterable[str], text: Iterable[str]) -> float:
        """Returns the weight of the asked stems that the text has, as a share of all asked stems, from 0 to 1."""
        asked_stems, text_stems = set(asked), set(text)
        total = sum(self.weight(each) for each in asked_stems)
        return sum(self.weight(each) * self._found(each, text_stems) for each in asked_stems) / total if total else 0.0

    def _found(self, each: str, text_stems: set[str]) -> float:
        if each in text_stems:
            return 1.0
        like = self._like.get(each, {})
        return max((like[found] for found in like.keys() & text_stems), default=0.0)
