"""Finds the best passages for a question, and the best sentences in them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from platform_service.embedding.embedder import Embedder
from platform_service.embedding.passages import Passage, sentences
from platform_service.embedding.vector_document import EmbeddedText
from platform_service.sis.answer_kind import holds_answer
from platform_service.sis.words import Rarity, stems

#: Half of a passage's score is meaning (cosine), half shared words: static word vectors confuse texts of one topic, and
#: shared rare words distinguish them.
COSINE_SHARE = 0.5
#: Share of the passage in a sentence's score: the passage often names what the sentence calls "it".
PASSAGE_SHARE = 0.35
#: factor for a sentence without the number, date or name that the question asks for
WRONG_KIND_FACTOR = 0.55
#: factor for a heading with the line after it, see `_candidates`
PAIR_FACTOR = 0.93
#: in characters: a longer line without a full stop is not a label
MAX_LABEL_LENGTH = 60
#: the highest cosine that a question and its answer reach in practice; it counts as 1
BEST_COSINE = 0.75


@dataclass(frozen=True)
class ScoredPassage:
    """A passage with its score for one question, 0 to 1."""

    passage: Passage
    score: float


@dataclass(frozen=True)
class ScoredSentence:
    """A sentence with its score for one question, 0 to 1, and its passage."""

    text: str
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

    def sentences(self, question: str, passages: list[ScoredPassage]) -> list[ScoredSentence]:
        """The sentences of these passages, best first."""
        asked = stems(question)
        candidates = [(scored, *candidate) for scored in passages for candidate in _candidates(scored.passage.text)]
        vectors = self._embedder.embed([text for _, text, _ in candidates])
        cosines = vectors @ self._embedder.embed([question])[0]
        best: dict[str, ScoredSentence] = {}
        for (scored, text, factor), cosine in zip(candidates, cosines, strict=True):
            own = _blend(float(cosine), self._rarity.overlap(asked, stems(text)))
            score = factor * ((1 - PASSAGE_SHARE) * own + PASSAGE_SHARE * scored.score)
            if holds_answer(question, text) is False:
                score *= WRONG_KIND_FACTOR
            # overlapping passages share sentences: each is listed once, with its best score
            if text not in best or score > best[text].score:
                best[text] = ScoredSentence(text, scored.passage, score)
        return sorted(best.values(), key=lambda each: (-each.score, each.passage.index))


def _candidates(passage: str) -> list[tuple[str, float]]:
    """(text, factor) of each sentence, and of each heading or label with the line after it.

    "Opening hours" alone answers nothing. A pair has the words of both lines, so it counts a little less than one line
    that has them all.
    """
    lines = sentences(passage)
    alone = [(line, 1.0) for line in lines]
    pairs = [
        (f"{line} {after}", PAIR_FACTOR)
        for line, after in pairwise(lines)
        if line[-1:] not in ".!?" and len(line) < MAX_LABEL_LENGTH and after[-1:] not in ".!?"
    ]
    return alone + pairs


def _blend(cosine: float, overlap: float) -> float:
    meaning = min(max(cosine, 0.0) / BEST_COSINE, 1.0)
    return COSINE_SHARE * meaning + (1 - COSINE_SHARE) * overlap
