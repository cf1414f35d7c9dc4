"""Finds the best passages for a question, and the best answers in them."""

from __future__ import annotations

from dataclasses import dataclass

from platform_service.embedding.embedder import Embedder
from platform_service.embedding.passages import Passage
from platform_service.embedding.vector_document import EmbeddedText
from platform_service.sis.answer_kind import holds_answer
from platform_service.sis.candidates import Candidate, candidates
from platform_service.sis.words import Rarity, stems

#: Half of a passage's score is meaning (cosine), half shared words: static word vectors confuse texts of one topic, and
#: shared rare words distinguish them.
COSINE_SHARE = 0.5
#: factor for a sentence without the number, date or name that the question asks for
WRONG_KIND_FACTOR = 0.55
#: factor for two sentences: they count only where one alone has fewer of the words
PAIR_FACTOR = 0.93
#: factor for a row of a table that the question does not name
WRONG_ROW_FACTOR = 0.4
#: the highest cosine that a question and its answer reach in practice; it counts as 1
BEST_COSINE = 0.75


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


class Retrieval:
    """Searches one document."""

    def __init__(self, text: EmbeddedText, embedder: Embedder) -> None:
        self._text = text
        self._embedder = embedder
        self._stems = [stems(passage.text) for passage in text.passages]
        self._rarity = Rarity(passage.text for passage in text.passages)

    def passages(self, question: str, top_k: int) -> list[ScoredPassage]:
        """The best `top_k` passages, best first; equal scores in the order of the document."""
        asked = stems(question)
        cosines = self._text.vectors @ self._embedder.embed([question])[0]
        scored = [
            ScoredPassage(passage, _blend(float(cosine), self._rarity.overlap(asked, passage_stems)))
            for passage, cosine, passage_stems in zip(self._text.passages, cosines, self._stems, strict=True)
        ]
        return sorted(scored, key=lambda each: (-each.score, each.passage.index))[:top_k]

    def candidates(self, question: str, passages: list[ScoredPassage]) -> list[ScoredCandidate]:
        """What may be the answer in these passages, best first."""
        vector = self._embedder.embed([question])[0]
        found = [(scored, each) for scored in passages for each in candidates(scored.passage.text)]
        cosines = self._embedder.embed([each.text for _, each in found]) @ vector
        in_context = self._embedder.embed([f"{each.context} {each.text}" for _, each in found]) @ vector
        best: dict[str, ScoredCandidate] = {}
        for (scored, each), cosine, above in zip(found, cosines, in_context, strict=True):
            score = self._score(question, each, float(max(cosine, above))) * _fit(question, each)
            # overlapping passages share sentences: each is listed once, with its best score
            if each.text not in best or score > best[each.text].score:
                best[each.text] = ScoredCandidate(each, scored.passage, score)
        return sorted(best.values(), key=lambda each: (-each.score, each.passage.index))

    def _score(self, question: str, candidate: Candidate, cosine: float) -> float:
        """Meaning and shared words; of rows and fields also what their label says."""
        asked = stems(question)
        words = stems(f"{candidate.context} {candidate.text}")
        overlap = self._rarity.overlap(asked, words)
        if candidate.columns:
            column = max(self._rarity.overlap(stems(column), asked) for column in candidate.columns)
            return max(_blend(cosine, overlap), (_blend(cosine, overlap) + column) / 2)
        if candidate.name:
            # a label that says more than the question is another one's
            overlap = (overlap + self._rarity.overlap(stems(candidate.name), asked)) / 2
        return _blend(cosine, overlap)


def _fit(question: str, candidate: Candidate) -> float:
    """A factor up to 1: whether the candidate can be an answer to this question."""
    if candidate.columns:
        name = set(stems(candidate.name))
        return 1.0 if name and name <= set(stems(question)) else WRONG_ROW_FACTOR
    factor = PAIR_FACTOR if candidate.is_pair else 1.0
    return factor * WRONG_KIND_FACTOR if holds_answer(question, candidate.value or candidate.text) is False else factor


def _blend(cosine: float, overlap: float) -> float:
    meaning = min(max(cosine, 0.0) / BEST_COSINE, 1.0)
    return COSINE_SHARE * meaning + (1 - COSINE_SHARE) * overlap
