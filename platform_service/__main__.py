"""`python -m platform_service ocr|embedding|sis`: one service process."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping

from lucius_service.program import run
from lucius_service.step import Step
from platform_service.settings import read_model, read_ocr_threads

# Each service imports only its own libraries, since they take time and memory.


def _ocr(environ: Mapping[str, str]) -> Step:
    from platform_service.ocr.step import OcrStep

    return OcrStep(threads=read_ocr_threads(environ))


def _embedding(environ: Mapping[str, str]) -> Step:
    from platform_service.embedding.step import EmbeddingStep

    return EmbeddingStep()


def _sis(environ: Mapping[str, str]) -> Step:
    from platform_service.sis.step import SisStep

    return SisStep(model=read_model(environ))


_SERVICES = {"ocr": _ocr, "embedding": _embedding, "sis": _sis}


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="platform_service", description="one reference platform service")
    parser.add_argument("service", choices=sorted(_SERVICES), help="which step to serve")
    name: str = parser.parse_args(argv).service
    return run(name, _SERVICES[name])


if __name__ == "__main__":
    sys.exit(main())
