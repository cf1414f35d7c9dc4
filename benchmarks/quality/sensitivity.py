"""Measures the effect of each constant of the services on answers, on documents with text layers."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from benchmarks.quality.documents import DEVELOPMENT_SEED
from benchmarks.quality.measure import Services, measure

#: the second one makes a document with a column of 34 characters
SEEDS = (DEVELOPMENT_SEED, "d4")
#: about half, twice, and a value that switches the constant off
VALUES: dict[str, tuple[float, ...]] = {
    "LAYER_GAP": (0.55, 2.2, float("inf")),
    "MIN_LETTERS": (0, 10, 40),
    "MIN_COLUMN_ROWS": (2, 8),
    "MIN_COLUMN_SHARE": (0, 0.1),
    "MIN_COLUMN_FILL": (0.4, 1.0, 0),
    "MIN_COLUMN_LETTERS": (10, 40, 0),
    "FULL_LINE_SHARE": (0.4, 1.0, 0),
    "MIN_FULL_LINE": (10, 40, 0),
    "MAX_HEADING": (30, 120, 0),
    "COSINE_SHARE": (0.25, 1.0, 0),
    "BEST_COSINE": (0.4, 1.0),
    "LIKE_COSINE": (0.18, 0.7, 2),
    "WRONG_KIND_FACTOR": (0.3, 1.0),
    "SECOND_CHOICE_FACTOR": (0.5, 1.0),
}
#: parameters of the payloads of EMBEDDING and SIS, with their defaults changed in the same way
PARAMETERS: dict[str, dict[str, tuple[float, ...]]] = {
    "embedding": {"chunk_size": (300, 1200), "overlap": (60, 240, 0)},
    "sis": {"top_k": (2, 8), "min_score": (0.2, 0.8, 0)},
}


def compare(services: Services) -> Iterator[tuple[str, str, dict[str, float]]]:
    """Yields name, value and rates between 0 and 1. The first item has no change. Each further item
    changes one constant or parameter.
    """
    yield "none", "", _rates(services)
    for name, values in VALUES.items():
        for value in values:
            with _changed(name, value):
                yield name, f"{value:g}", _rates(services)
    for step, parameters in PARAMETERS.items():
        for name, values in parameters.items():
            for value in values:
                with patch.dict(services.payloads[step], {name: value}):
                    yield name, f"{value:g}", _rates(services)


@contextmanager
def _changed(name: str, value: float) -> Iterator[None]:
    """Changes the constant in its module and where it is imported. Raises LookupError if the constant is missing."""
    modules = [module for each, module in sys.modules.items() if each.startswith("platform_service.")]
    found = [module for module in modules if hasattr(module, name)]
    if not found:
        raise LookupError(name)
    before = [getattr(module, name) for module in found]
    try:
        for module in found:
            setattr(module, name, value)
        yield
    finally:
        for module, old in zip(found, before, strict=True):
            setattr(module, name, old)


def _rates(services: Services) -> dict[str, float]:
    summaries: list[dict[str, Any]] = [measure("development", seed, services, scans=False).summary() for seed in SEEDS]
    parts = {
        "right answers": ("answers_right", "all"),
        "absent": ("answers_right", "absent"),
        "near misses": ("near_misses_null", "all"),
        "first three": ("passage_top_3", "all"),
    }
    return {
        text: sum(summary[part][kind] for summary in summaries) / len(summaries) for text, (part, kind) in parts.items()
    }
