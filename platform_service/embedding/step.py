"""The EMBEDDING step: `embedding/vectors.json` from OCR's `text.json` or plain text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from lucius_service.step import Outcome, Task, read_payload
from platform_service.embedding.embedder import DIMENSIONS, Embedder
from platform_service.embedding.source_text import document_uri, read_text
from platform_service.embedding.vector_document import embed_pages, to_json

#: maximum characters of a passage, and maximum characters that the next one repeats (decision 63)
DEFAULT_CHUNK_SIZE = 600
DEFAULT_OVERLAP = 120


class EmbeddingPayload(BaseModel):
    """The payload, as in `protocols/steps/embedding.schema.json`."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    chunk_size: Annotated[int, Field(ge=100, le=8000)] = DEFAULT_CHUNK_SIZE
    overlap: Annotated[int, Field(ge=0, le=4000)] = DEFAULT_OVERLAP


class EmbeddingStep:
    """The EMBEDDING step, which splits text into passages and embeds the passages."""

    step_type = "EMBEDDING"
    result_name = "embedding/vectors.json"

    def __init__(self) -> None:
        self._embedder = Embedder()

    def prepare(self) -> None:
        self._embedder.load()

    def validate(self, payload: Any) -> EmbeddingPayload:
        return read_payload(EmbeddingPayload, payload)

    def execute(self, task: Task) -> Outcome:
        source = task.read_input()
        payload: EmbeddingPayload = task.payload
        pages = read_text(source.data)
        text = embed_pages(pages, self._embedder, payload.chunk_size, payload.overlap)
        body = json.dumps(to_json(document_uri(source), text), ensure_ascii=False).encode()
        return Outcome(
            task.write(self.result_name, body, "application/json"),
            {"pages": len(pages), "chunks": len(text.passages), "dimensions": DIMENSIONS},
        )


def build(environ: Mapping[str, str]) -> EmbeddingStep:
    """Returns the service's step, which has no settings."""
    return EmbeddingStep()
