"""The three services with their models, once a session."""

from __future__ import annotations

import pytest

from platform_service.embedding.step import EmbeddingStep
from platform_service.ocr.step import OcrStep
from platform_service.sis.step import SisStep
from tests.lucius_service.fixtures import account, bus, bus_config, environment, invoker, runner, workspace

__all__ = ["account", "bus", "bus_config", "environment", "invoker", "runner", "workspace"]


@pytest.fixture(scope="session")
def ocr() -> OcrStep:
    step = OcrStep()
    step.prepare()
    return step


@pytest.fixture(scope="session")
def embedding() -> EmbeddingStep:
    step = EmbeddingStep()
    step.prepare()
    return step


@pytest.fixture(scope="session")
def sis() -> SisStep:
    step = SisStep()
    step.prepare()
    return step
