"""The answer to one question, with its score and citation."""

from __future__ import annotations

from typing import Any

from platform_service.embedding.embedder import Embedder
from platform_service.embedding.passages import Passage, sentences
from platform_service.settings import ModelEndpoint
from platform_service.sis import model_endpoint
from platform_service.sis.retrieval import Retrieval, ScoredCandidate, ScoredPassage
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
    """Returns an item of `answers` in `sis/result.json`: `{answer, score, method, citation, passages}`.

    `passages` has the `top_k` nearest passages. If `model` is None and no answer reaches `min_score`, `answer` and
    `citation` are None. With a model, they are None if the model gives no answer. Raises StepFailed if the model
    endpoint fails.
    """
    passages = retrieval.passages(question, top_k)
    best = retrieval.candidates(question, passages)[0]
    if model is not None:
        return _from_model(model, embedder, question, passages, best)
    is_answered = best.score >= min_score
    return {
        "answer": best.text if is_answered else None,
        "score": round(best.score, 4),
        "method": "extractive",
        "citation": _citation(best.passage.page, best.passage.index, best.candidate.quote) if is_answered else None,
        "passages": _passages(passages),
    }


def _from_model(
    model: ModelEndpoint, embedder: Embedder, question: str, passages: list[ScoredPassage], best: ScoredCandidate
) -> dict[str, Any]:
    model_answer = model_endpoint.ask(model, question, [scored.passage.text for scored in passages])
    citation = None
    if model_answer.answer is not None:
        cited = passages[model_answer.passage] if model_answer.passage is not None else None
        if cited is not None and model_answer.quote is not None and model_answer.quote in cited.passage.text:
            citation = _citation(cited.passage.page, cited.passage.index, model_answer.quote)
        else:
            # the quote is not in the passage: cite the nearest text instead
            passage, quote = _nearest(embedder, model_answer.answer, [cited] if cited is not None else passages)
            citation = _citation(passage.page, passage.index, quote)
    return {
        "answer": model_answer.answer,
        "score": round(best.score, 4),
        "method": f"model:{model.model}",
        "citation": citation,
        "passages": _passages(passages),
    }


def _nearest(embedder: Embedder, text: str, passages: list[ScoredPassage]) -> tuple[Passage, str]:
    """Returns the passage that is nearest to the text, and the nearest line or sentence of that passage."""
    rarity = Rarity(scored.passage.text for scored in passages)
    lines = [(scored.passage, line) for scored in passages for line in sentences(scored.passage.text)]
    cosines = embedder.embed([line for _, line in lines]) @ embedder.embed([text])[0]
    text_stems = stems(text)
    scores = [
        float(cosine) + rarity.overlap(text_stems, stems(line))
        for (_, line), cosine in zip(lines, cosines, strict=True)
    ]
    return lines[scores.index(max(scores))]


def _citation(page: int, chunk: int, quote: str) -> dict[str, Any]:
    return {"page": page, "chunk": chunk, "quote": quote}


def _passages(passages: list[ScoredPassage]) -> list[dict[str, Any]]:
    return [
        {
            "page": scored.passage.page,
            "chunk": scored.passage.index,
            "score": round(scored.score, 4),
            "text": scored.passage.text,
        }
        for scored in passages
    ]
