"""Settings of the reference services, in addition to those of the kit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lucius_service.settings import SettingsError, whole_number


@dataclass(frozen=True)
class ModelEndpoint:
    """An OpenAI-compatible endpoint that words the answers of SIS."""

    #: up to and without `/chat/completions`, for instance `http://127.0.0.1:11434/v1`
    base_url: str
    model: str
    #: never logged; empty: no Authorization header
    api_key: str = field(default="", repr=False)


def read_ocr_threads(environ: Mapping[str, str]) -> int:
    """Pages of a document that are recognised at once. Raises SettingsError."""
    return whole_number(environ, "LUCIUS_OCR_THREADS", 1, 1, 64)


def read_model(environ: Mapping[str, str]) -> ModelEndpoint | None:
    """The endpoint that words the answers of SIS; None: SIS quotes the text. Raises SettingsError."""
    base_url = environ.get("LUCIUS_SIS_OPENAI_BASE_URL", "").strip().rstrip("/")
    if not base_url:
        return None
    if not base_url.startswith(("http://", "https://")):
        raise SettingsError("LUCIUS_SIS_OPENAI_BASE_URL must be an http or https address")
    model = environ.get("LUCIUS_SIS_OPENAI_MODEL", "").strip()
    if not model:
        raise SettingsError("LUCIUS_SIS_OPENAI_MODEL is not set: it names the model to ask")
    return ModelEndpoint(base_url, model, environ.get("LUCIUS_SIS_OPENAI_API_KEY", "").strip())
