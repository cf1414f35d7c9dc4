"""`python -m platform_service ocr|embedding|sis`: one service process."""

from __future__ import annotations

import argparse
import sys

from lucius_service.program import run
from lucius_service.settings import Settings
from lucius_service.step import Step

# Each service imports its own libraries only: they are what takes time and memory.


def _ocr(settings: Settings) -> Step:
    from platform_service.ocr.step import OcrStep

    return OcrStep(threads=settings.ocr_threads)


def _embedding(settings: Settings) -> Step:
    from platform_service.embedding.step import EmbeddingStep

    return EmbeddingStep()


def _sis(settings: Settings) -> Step:
    from platform_service.sis.step import SisStep

    return SisStep(model=settings.model)


_SERVICES = {"ocr": _ocr, "embedding": _embedding, "sis": _sis}


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="platform_service", description="one reference platform service")
    parser.add_argument("service", choices=sorted(_SERVICES), help="which step to serve")
    name: str = parser.parse_args(argv).service
    return run(name, _SERVICES[name])


if __name__ == "__main__":
    sys.exit(main())
