"""The payload schemas that callers see and the models that services validate with say the same."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from lucius_service.errors import FailedFinal
from lucius_service.step import Step
from platform_service.embedding.step import EmbeddingPayload, EmbeddingStep
from platform_service.ocr.step import OcrPayload, OcrStep
from platform_service.sis.step import SisPayload, SisStep
from tests.lucius_service.service_process import ROOT

STEPS: dict[str, tuple[Step, type[OcrPayload] | type[EmbeddingPayload] | type[SisPayload]]] = {
    "ocr": (OcrStep(), OcrPayload),
    "embedding": (EmbeddingStep(), EmbeddingPayload),
    "sis": (SisStep(), SisPayload),
}
GOOD: list[tuple[str, Any]] = [
    ("ocr", {}),
    ("ocr", {"force_ocr": True, "dpi": 72, "min_confidence": 0, "max_pages": 1}),
    ("ocr", {"dpi": 400, "min_confidence": 1, "max_pages": 2000}),
    ("embedding", {}),
    ("embedding", {"chunk_size": 100, "overlap": 0}),
    ("embedding", {"chunk_size": 8000, "overlap": 4000}),
    ("sis", {"prompt_set": ["Why?"]}),
    ("sis", {"prompt_set": [{"prompt": "Why?"}, {"id": "b", "prompt": "How?"}], "top_k": 20, "min_score": 0.25}),
]
BAD: list[tuple[str, Any]] = [
    ("ocr", []),
    ("ocr", {"dpi": 71}),
    ("ocr", {"dpi": 401}),
    ("ocr", {"dpi": "150"}),
    ("ocr", {"force_ocr": 1}),
    ("ocr", {"min_confidence": 1.1}),
    ("ocr", {"max_pages": 0}),
    ("ocr", {"pages": 3}),
    ("embedding", {"chunk_size": 99}),
    ("embedding", {"chunk_size": 8001}),
    ("embedding", {"overlap": -1}),
    ("embedding", {"overlap": 4001}),
    ("embedding", {"model": "x"}),
    ("sis", {}),
    ("sis", {"prompt_set": []}),
    ("sis", {"prompt_set": "Why?"}),
    ("sis", {"prompt_set": [""]}),
    ("sis", {"prompt_set": [{"id": "a"}]}),
    ("sis", {"prompt_set": [{"id": "", "prompt": "Why?"}]}),
    ("sis", {"prompt_set": [{"prompt": "Why?", "more": 1}]}),
    ("sis", {"prompt_set": ["Why?"], "top_k": 0}),
    ("sis", {"prompt_set": ["Why?"], "top_k": 21}),
    ("sis", {"prompt_set": ["Why?"], "min_score": -0.1}),
]


def schema(name: str) -> dict[str, Any]:
    value: dict[str, Any] = json.loads((ROOT / "protocols" / "steps" / f"{name}.schema.json").read_text())
    return value


@pytest.mark.parametrize(("name", "payload"), GOOD)
def test_both_take_what_is_good(name: str, payload: Any) -> None:
    """What the schema takes, the service takes."""
    assert Draft202012Validator(schema(name)).is_valid(payload)
    assert STEPS[name][0].validate(payload) is not None


@pytest.mark.parametrize(("name", "payload"), BAD)
def test_both_refuse_what_is_bad(name: str, payload: Any) -> None:
    """What the schema refuses, the service refuses, with the field's name."""
    assert not Draft202012Validator(schema(name)).is_valid(payload)
    with pytest.raises(FailedFinal, match="PAYLOAD_INVALID"):
        STEPS[name][0].validate(payload)


@pytest.mark.parametrize("name", STEPS)
def test_schemas_are_closed_and_described_and_tell_the_true_defaults(name: str) -> None:
    """Draft 2020-12, no unknown field, a description each, and the defaults that the service uses."""
    found = schema(name)
    Draft202012Validator.check_schema(found)
    assert found["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert found["additionalProperties"] is False
    fields = STEPS[name][1].model_fields
    assert set(fields) == set(found["properties"])
    for field, rules in found["properties"].items():
        assert rules["description"], field
        assert fields[field].is_required() == (field in found.get("required", []))
        if not fields[field].is_required():
            assert fields[field].default == rules["default"], field
