"""The payload schemas of the protocols and the models of the services accept the same payloads."""

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
def test_both_accept_good_payloads(name: str, payload: Any) -> None:
    """A good payload is accepted by the schema and by the service."""
    assert Draft202012Validator(schema(name)).is_valid(payload)
    assert STEPS[name][0].validate(payload) is not None


@pytest.mark.parametrize(("name", "payload"), BAD)
def test_both_refuse_bad_payloads(name: str, payload: Any) -> None:
    """A bad payload is refused by the schema and, with the name of the field, by the service."""
    assert not Draft202012Validator(schema(name)).is_valid(payload)
    with pytest.raises(FailedFinal, match="PAYLOAD_INVALID"):
        STEPS[name][0].validate(payload)


@pytest.mark.parametrize("name", STEPS)
def test_schemas_are_closed_and_described_and_have_the_true_defaults(name: str) -> None:
    """Draft 2020-12, no unknown fields, a description for each field, and the defaults that the service uses."""
    document = schema(name)
    Draft202012Validator.check_schema(document)
    assert document["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert document["additionalProperties"] is False
    fields = STEPS[name][1].model_fields
    assert set(fields) == set(document["properties"])
    for field, rules in document["properties"].items():
        assert rules["description"], field
        assert fields[field].is_required() == (field in document.get("required", []))
        if not fields[field].is_required():
            assert fields[field].default == rules["default"], field
