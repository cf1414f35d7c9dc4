"""The SIS step, which writes `sis/result.json`: the answers to `payload.prompt_set`, from vectors or from text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from lucius_service.step import Outcome, Task, read_payload
from platform_service.embedding.embedder import Embedder
from platform_service.embedding.source_text import document_uri, read_json, read_text
from platform_service.embedding.step import DEFAULT_CHUNK_SIZE, DEFAULT_OVERLAP
from platform_service.embedding.vector_document import FORMAT as VECTORS_FORMAT
from platform_service.embedding.vector_document import EmbeddedText, embed_pages, from_json
from platform_service.settings import ModelEndpoint, read_model
from platform_service.sis.answers import answer
from platform_service.sis.retrieval import Retrieval

FORMAT = "lucius.answers/1"


class Prompt(BaseModel):
    """One question. The default of `id` is the position in the list, from 1."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    id: Annotated[str, Field(min_length=1, max_length=128)] | None = None
    prompt: Annotated[str, Field(min_length=1, max_length=4000)]


def _as_prompt(value: Any) -> Any:
    return {"prompt": value} if isinstance(value, str) else value


class SisPayload(BaseModel):
    """The payload, as in `protocols/steps/sis.schema.json`."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    prompt_set: Annotated[list[Annotated[Prompt, BeforeValidator(_as_prompt)]], Field(min_length=1, max_length=100)]
    # decision 63 has the effects of other defaults
    top_k: Annotated[int, Field(ge=1, le=20)] = 4
    min_score: Annotated[float, Field(ge=0, le=1)] = 0.4


class SisStep:
    """The SIS step, which answers questions from a document, with citations."""

    step_type = "SIS"
    result_name = "sis/result.json"

    def __init__(self, *, model: ModelEndpoint | None = None) -> None:
        self._embedder = Embedder()
        self._model = model

    def prepare(self) -> None:
        self._embedder.load()

    def validate(self, payload: Any) -> SisPayload:
        return read_payload(SisPayload, payload)

    def execute(self, task: Task) -> Outcome:
        source = task.read_input()
        payload: SisPayload = task.payload
        retrieval = Retrieval(self._text(source.data), self._embedder)
        answers = []
        for number, prompt in enumerate(payload.prompt_set, 1):
            answered = answer(
                retrieval,
                self._embedder,
                prompt.prompt,
                top_k=payload.top_k,
                min_score=payload.min_score,
                model=self._model,
            )
            answers.append({"id": prompt.id or str(number), "prompt": prompt.prompt, **answered})
            task.report(number / len(payload.prompt_set), f"question {number} of {len(payload.prompt_set)}")
        result = {"format": FORMAT, "input": {"uri": document_uri(source)}, "answers": answers}
        body = json.dumps(result, ensure_ascii=False, indent=1).encode()
        return Outcome(
            task.write(self.result_name, body, "application/json"),
            {"questions": len(answers), "answered": sum(each["answer"] is not None for each in answers)},
        )

    def _text(self, data: bytes) -> EmbeddedText:
        value = read_json(data)
        if value is not None and value.get("format") == VECTORS_FORMAT:
            return from_json(value, self._embedder)
        return embed_pages(read_text(data), self._embedder, DEFAULT_CHUNK_SIZE, DEFAULT_OVERLAP)


def build(environ: Mapping[str, str]) -> SisStep:
    """Returns the service's step, from its settings. Raises SettingsError."""
    return SisStep(model=read_model(environ))
