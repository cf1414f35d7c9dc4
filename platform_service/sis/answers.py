"""One question's answer with its score and citation."""

from __future__ import annotations

from typing import Any

from platform_service.embedding.embedder import Embedder
from platform_service.embedding.passages import sentences
from platform_service.settings import ModelEndpoint
from platform_service.sis import model_endpoint
from platform_service.sis.retrieval import Retrieval, ScoredPassage, ScoredSentence
from platform_service.sis.words import Rarity, stems


def answer(
    retrieval: Retrieval,
    embedder: Embedder,
    question: str,
    *,
    top_k: int,
    min_score: float,
    model: ModelEndpoint | None,
) -> dict[str, Any]:
    """`{answer, score, method, citation, passages}`. No answer is good enough: `answer` and `citation` are None, and
    the passages say what came nearest. Raises StepFailed where the model endpoint fails."""
    passages = retrieval.passages(question, top_k)
    best = retrieval.sentences(question, passages)[0]
    if model is not None:
        return _from_model(model, embedder, question, passages, best)
    is_answered = best.score >= min_score
    return {
        "answer": best.text if is_answered else None,
        "score": round(best.score, 4),
        "method": "extractive",
        "citation": _citation(best.passage.page, best.passage.index, best.text) if is_answered else None,
        "passages": _passages(passages),
    }


def _from_model(
    model: ModelEndpoint, embedder: Embedder, question: str, passages: list[ScoredPassage], best: ScoredSentence
) -> dict[str, Any]:
    reply = model_endpoint.ask(model, question, [found.passage.text for found in passages])
    citation = None
    if reply.answer is not None:
        cited = passages[reply.passage] if reply.passage is not None else None
        if cited is not None and reply.quote is not None and reply.quote in cited.passage.text:
            citation = _citation(cited.passage.page, cited.passage.index, reply.quote)
        else:
            # a quote that the passage does not have is not repeated: the nearest sentence that is there stands for it
            nearest = _nearest(embedder, reply.answer, [cited] if cited is not None else passages)
            citation = _citation(nearest.passage.page, nearest.passage.index, nearest.text)
    return {
        "answer": reply.answer,
        "score": round(best.score, 4),
        "method": f"model:{model.model}",
        "citation": citation,
        "passages": _passages(passages),
    }


def _nearest(embedder: Embedder, text: str, passages: list[ScoredPassage]) -> ScoredSentence:
    rarity = Rarity(found.passage.text for found in passages)
    candidates = [(found, line) for found in passages for line in sentences(found.passage.text)]
    cosines = embedder.embed([line for _, line in candidates]) @ embedder.embed([text])[0]
    text_stems = stems(text)
    return max(
        (
            ScoredSentence(line, found.passage, float(cosine) + rarity.overlap(text_stems, stems(line)))
            for (found, line), cosine in zip(candidates, cosines, strict=True)
        ),
        key=lambda each: each.score,
    )


def _citation(page: int, chunk: int, quote: str) -> dict[str, Any]:
    return {"page": page, "chunk": chunk, "quote": quote}


def _passages(passages: list[ScoredPassage]) -> list[dict[str, Any]]:
    return [
        {
            "page": found.passage.page,
            "chunk": found.passage.index,
            "score": round(found.score, 4),
            "text": found.passage.text,
        }
        for found in passages
    ]
