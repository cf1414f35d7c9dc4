"""Converts sentences to vectors with wordllama, whose weights come in the wheel."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: written into the vector document, since vectors of different models cannot be compared
MODEL = "wordllama-l2_supercat-256"
DIMENSIONS = 256

Vectors = NDArray[np.float32]


@cache
def _load_model() -> Any:
    """Returns the model, which all embedders of a process share. The model is read-only and has 16 MB."""
    import wordllama

    # with its own folder and without downloads it needs no network and no cache in the home folder
    folder = Path(wordllama.__file__).parent
    return wordllama.WordLlama.load(cache_dir=folder, disable_download=True)


class Embedder:
    """An embedder, which loads the model on first use."""

    def __init__(self) -> None:
        self._model: Any = None

    def load(self) -> None:
        self._model = _load_model()

    def embed(self, texts: list[str]) -> Vectors:
        """Returns one vector for each text. A vector has norm 1, or norm 0 if the text has no known word."""
        if self._model is None:
            self.load()
        if not texts:
            return np.zeros((0, DIMENSIONS), np.float32)
        rows = np.asarray(self._model.embed(texts, norm=False), np.float32)
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        unit: Vectors = np.divide(rows, lengths, out=np.zeros_like(rows), where=lengths > 0)
        return unit
