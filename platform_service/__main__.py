"""`python -m platform_service ocr|embedding|sis`: one service process."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import sys

from platform_service.settings import Settings, SettingsError, read_settings
from platform_service.step import Step


def main(argv: list[str] | None = None) -> int:
    """0 after an orderly stop; 1 with one line on stderr for what keeps the service from starting."""
    parser = argparse.ArgumentParser(prog="platform_service", description="one reference platform service")
    parser.add_argument("service", choices=sorted(_STEPS), help="which step to serve")
    name: str = parser.parse_args(argv).service
    # BLAS and tokenizers would start a thread a core each, in three processes that share the machine
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS"):
        os.environ.setdefault(variable, "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format=f"%(asctime)s {name} %(levelname)s %(message)s")
    # the SDKs tell every frame and every retry
    logging.getLogger("azure").setLevel(logging.CRITICAL)
    try:
        settings = read_settings(os.environ)
        from platform_service.service import serve

        step = _STEPS[name](settings)
        return asyncio.run(serve(step, settings, on_ready=lambda: print(f"ready {name}", flush=True)))
    except (SettingsError, OSError) as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 1


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


_STEPS = {"ocr": _ocr, "embedding": _embedding, "sis": _sis}

if __name__ == "__main__":
    sys.exit(main())
