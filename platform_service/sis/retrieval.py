"""Finds the best passages for a question, and the best answers in these passages."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from platform_service.embedding.embedder import Embedder
from platform_service.embedding.passages import Passage
from platform_service.embedding.vector_document import EmbeddedText
from platform_service.sis.answer_kind import SECOND_CHOICE_FACTOR, WRONG_KIND_FACTOR, kind_fit, value_fit
from platform_service.sis.candidates import Candidate, candidates
from platform_service.sis.rows import read_row
from platform_service.sis.subjects import GENERAL, SUMS, names, subjects
from platform_service.sis.words import Rarity, content_words, stem, stems

#: Half of a passage's score is meaning (cosine), half shared words: static word vectors confuse texts of one topic, and
#: shared rare words distinguish them.
COSINE_SHARE = 0.5
#: the highest cosine that a question and its answer reach in practice; it counts as 1
BEST_COSINE = 0.75
#: minimum cosine of two words of one meaning, for instance `deep` and `depth` (decision 63)
LIKE_COSINE = 0.35


@dataclass(frozen=True)
class ScoredPassage:
    """A passage with its score for one question, 0 to 1."""

    passage: Passage
    score: float


@dataclass(frozen=True)
class ScoredCandidate:
    """A candidate with its score for one question, 0 to 1, and its passage."""

    candidate: Candidate
    passage: Passage
    score: float
    #: the answer: of a row the cells that the question names and asks for
    text: str


@dataclass(frozen=True)
class _Asked:
    """A question, read for one document."""

    question: str
    stems: frozenset[str]
    rarity: Rarity
    #: stems of the question's nouns and names that the document lacks, with those of similar words in the passages
    absent: dict[str, frozenset[str]]
    #: `True` if the document lacks a name or a code of the question
    lacks_name: bool


class Retrieval:
    """The search in one document."""

    def __init__(self, text: EmbeddedText, embedder: Embedder) -> None:
        self._text = text
        self._embedder = embedder
        self._stems = [stems(passage.text) for passage in text.passages]
        self._rarity = Rarity(passage.text for passage in text.passages)

    def passages(self, question: str, top_k: int) -> list[ScoredPassage]:
        """Returns the best `top_k` passages, best first. Equal scores are in the order of the document."""
        asked = stems(question)
        cosines = self._text.vectors @ self._embedder.embed([question])[0]
        scored = [
            ScoredPassage(passage, _blend(float(cosine), self._rarity.overlap(asked, passage_stems)))
            for passage, cosine, passage_stems in zip(self._text.passages, cosines, self._stems, strict=True)
        ]
        return sorted(scored, key=lambda each: (-each.score, each.passage.index))[:top_k]

    def candidates(self, question: str, passages: list[ScoredPassage]) -> list[ScoredCandidate]:
        """Returns the possible answers in these passages, best first."""
        vector = self._embedder.embed([question])[0]
        found = [(scored, each) for scored in passages for each in candidates(scored.passage.text)]
        cosines = self._embedder.embed([_words(each) for _, each in found]) @ vector
        in_context = self._embedder.embed([f"{each.context} {_words(each)}" for _, each in found]) @ vector
        asked = self._read(question, passages)
        best: dict[str, ScoredCandidate] = {}
        for (scored, each), cosine, above in zip(found, cosines, in_context, strict=True):
            here = self._scored(asked, each, scored.passage, float(max(cosine, above)))
            # overlapping passages share sentences: each is listed once, with its best score
            if here.text not in best or here.score > best[here.text].score:
                best[here.text] = here
        return sorted(best.values(), key=lambda each: (-each.score, each.passage.index))

    def _read(self, question: str, passages: list[ScoredPassage]) -> _Asked:
        asked = content_words(question)
        present = sorted({word for scored in passages for word in content_words(scored.passage.text)})
        like: defaultdict[str, dict[str, float]] = defaultdict(dict)
        for word, cosines in zip(asked, self._embedder.embed(asked) @ self._embedder.embed(present).T, strict=True):
            for place in np.flatnonzero(cosines >= LIKE_COSINE):
                one, other = stem(word), stem(present[place])
                like[one][other] = like[other][one] = max(like[one].get(other, 0.0), float(cosines[place]))
        absent = [stem(word) for word in subjects(question) if stem(word) not in self._rarity]
        return _Asked(
            question,
            frozenset(map(stem, asked)),
            self._rarity.with_likeness(like),
            {each: frozenset(like[each]) for each in absent},
            any(stem(name) not in self._rarity for name in names(question)),
        )

    def _scored(self, asked: _Asked, candidate: Candidate, passage: Passage, cosine: float) -> ScoredCandidate:
        """Scores a candidate by meaning and shared words. The score of a row also includes its cells, and the score of
        a value its label.
        """
        question, rarity = asked.question, asked.rarity
        own = set(stems(f"{candidate.context} {_words(candidate)}"))
        overlap = rarity.overlap(asked.stems, own)
        score = _blend(cosine, overlap)
        text = candidate.text
        if candidate.cells:
            row = read_row(question, candidate.cells, candidate.context, rarity)
            is_named = row.is_named and not asked.lacks_name
            score = max(score, (score + row.asked) / 2) * row.fit if is_named else 0.0
            text = row.text
        else:
            if candidate.label:
                # a label that says more than the question is another one's
                score = _blend(cosine, (overlap + rarity.overlap(stems(candidate.label), asked.stems)) / 2)
            score *= SECOND_CHOICE_FACTOR if candidate.is_pair else 1.0
            fit = value_fit(question, candidate.value) if candidate.value else kind_fit(question, candidate.text)
            score *= fit or 1.0
        if _is_near_miss(asked, candidate, own):
            score *= WRONG_KIND_FACTOR
        return ScoredCandidate(candidate, passage, score, text)


def _is_near_miss(asked: _Asked, candidate: Candidate, own: set[str]) -> bool:
    """Returns True if the candidate has every word of the question except one, and that word names a thing that the
    document lacks.
    """
    if candidate.label and set(stems(candidate.label)) <= asked.stems:
        return False
    missing = [each for each, like in asked.absent.items() if not like & own]
    if not candidate.cells and kind_fit(asked.question, candidate.text) == 1.0:
        missing = [each for each in missing if each not in SUMS]
    return len(missing) == 1 and asked.stems - own - GENERAL <= {*missing}


def _words(candidate: Candidate) -> str:
    return " ".join(part for cell in candidate.cells for part in cell) if candidate.cells else candidate.text


def _blend(cosine: float, overlap: float) -> float:
    meaning = min(max(cosine, 0.0) / BEST_COSINE, 1.0)
    return COSINE_SHARE * meaning + (1 - COSINE_SHARE) * overlap
