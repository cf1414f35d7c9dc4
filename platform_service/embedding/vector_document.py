"""`vectors.json`, which EMBEDDING writes and SIS reads: passages with their vectors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lucius_service.errors import INPUT_BROKEN, FailedFinal
from platform_service.embedding.embedder import DIMENSIONS, MODEL, Embedder, Vectors
from platform_service.embedding.passages import Passage, split_passages
from platform_service.embedding.source_text import TextPage, replace_surrogates

FORMAT = "lucius.vectors/1"
#: decimals of each number: half the size of full precision, and cosines stay equal to four digits
DECIMALS = 5


@dataclass(frozen=True)
class EmbeddedText:
    """Passages, and one row of vectors for each."""

    passages: list[Passage]
    vectors: Vectors


def embed_pages(pages: list[TextPage], embedder: Embedder, chunk_size: int, overlap: int) -> EmbeddedText:
    """Splits pages into passages and embeds the passages."""
    passages = split_passages(pages, chunk_size, overlap)
    return EmbeddedText(passages, embedder.embed([passage.text for passage in passages]))


def to_json(uri: str, text: EmbeddedText) -> dict[str, Any]:
    """Returns `vectors.json` as an object. `uri` is the URI of the document."""
    return {
        "format": FORMAT,
        "input": {"uri": uri},
        "model": MODEL,
        "dimensions": DIMENSIONS,
        "chunks": [
            {
                "index": passage.index,
                "page": passage.page,
                "text": passage.text,
                "vector": [round(float(number), DECIMALS) for number in vector],
            }
            for passage, vector in zip(text.passages, text.vectors, strict=True)
        ],
    }


def from_json(value: dict[str, Any], embedder: Embedder) -> EmbeddedText:
    """Reads `vectors.json`. Embeds the passages again if another model made the vectors. Raises FailedFinal."""
    try:
        chunks = [chunk for chunk in value["chunks"] if str(chunk["text"]).strip()]
        passages = [
            Passage(int(chunk["index"]), int(chunk["page"]), replace_surrogates(chunk["text"])) for chunk in chunks
        ]
        if value.get("model") == MODEL:
            vectors = np.array([chunk["vector"] for chunk in chunks], np.float32).reshape(-1, DIMENSIONS)
        else:
            vectors = embedder.embed([passage.text for passage in passages])
    except (KeyError, TypeError, ValueError, RecursionError):
        raise FailedFinal(
            INPUT_BROKEN, f"the input is {FORMAT}, but chunks or vectors are missing or invalid"
        ) from None
    if not passages or len(vectors) != len(passages):
        found = f"{len(passages)} passages with text and {len(vectors)} vectors"
        raise FailedFinal(INPUT_BROKEN, f"the input is {FORMAT}, but has {found}")
    return EmbeddedText(passages, vectors)
