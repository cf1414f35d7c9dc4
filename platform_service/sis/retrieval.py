"""Finds the best passages for a question, and the best answers in them."""

from __future__ import annotations

from dataclasses import dataclass

from platform_service.embedding.embedder import Embedder
from platform_service.embedding.passages import Passage
from platform_service.embedding.vector_document import EmbeddedText
from platform_service.sis.answer_kind import SECOND_CHOICE_FACTOR, kind_fit, value_fit
from platform_service.sis.candidates import Candidate, candidates
from platform_service.sis.rows import read_row
from platform_service.sis.words import Rarity, stems

#: Half of a passage's score is meaning (cosine), half shared words: static word vectors confuse texts of one topic, and
#: shared rare words distinguish them.
COSINE_SHARE = 0.5
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
    #: the answer: of a row the cells that the question names and asks for
    text: str


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
        cosines = self._embedder.embed([_words(each) for _, each in found]) @ vector
        in_context = self._embedder.embed([f"{each.context} {_words(each)}" for _, each in found]) @ vector
        best: dict[str, ScoredCandidate] = {}
        for (scored, each), cosine, above in zip(found, cosines, in_context, strict=True):
            here = self._scored(question, each, scored.passage, float(max(cosine, above)))
            # overlapping passages share sentences: each is listed once, with its best score
            if here.text not in best or here.score > best[here.text].score:
                best[here.text] = here
        return sorted(best.values(), key=lambda each: (-each.score, each.passage.index))

    def _scored(self, question: str, candidate: Candidate, passage: Passage, cosine: float) -> ScoredCandidate:
        """Meaning and shared words; of rows also the named cell and the asked column, of values their label."""
        asked = set(stems(question))
        words = f"{candidate.context} {_words(candidate)}"
        overlap = self._rarity.overlap(asked, stems(words))
        score = _blend(cosine, overlap)
        if candidate.cells:
            row = read_row(question, candidate.cells, candidate.context, self._rarity)
            score = max(score, (score + row.asked) / 2) * row.fit if row.is_named else 0.0
            return ScoredCandidate(candidate, passage, score, row.text)
        if candidate.label:
            # a label that says more than the question is another one's
            score = _blend(cosine, (overlap + self._rarity.overlap(stems(candidate.label), asked)) / 2)
        score *= SECOND_CHOICE_FACTOR if candidate.is_pair else 1.0
        fit = value_fit(question, candidate.value) if candidate.value else kind_fit(question, candidate.text)
        score *= fit or 1.0
        return ScoredCandidate(candidate, passage, score, candidate.text)


def _words(candidate: Candidate) -> str:
    return " ".join(part for cell in candidate.cells for part in cell) if candidate.cells else candidate.text


def _blend(cosine: float, overlap: float) -> float:
    meaning = min(max(cosine, 0.0) / BEST_COSINE, 1.0)
    return COSINE_SHARE * meaning + (1 - COSINE_SHARE) * overlap
