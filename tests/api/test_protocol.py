from typing import Any

import pytest

from shared.api.protocol import Protocol as ProtocolResponse
from shared.api.protocol import protocol_response
from shared.core.registry import Protocol, build_protocol
from tests.api.strict import misfits
from tests.jobs import body, registry


def own() -> Protocol:
    """A protocol in which every optional member is set."""
    step: dict[str, Any] = {
        "ack_timeout_s": 30,
        "lease_s": 900,
        "heartbeat_cadence_s": 60,
        "max_attempts": 4,
        "total_timeout_s": 3600,
        "backoffs": {"dispatch": [1, 2], "ack": [3], "execution": [4]},
    }
    steps = [{**step, "step_id": name, "step_type": "OCR", "service": "ocr"} for name in ("ocr", "again")]
    definition = {
        "protocol_id": "own",
        "version": 2,
        "request_type": "OWN",
        "description": "Reads twice.",
        "total_timeout_s": 7200,
        "steps": steps,
        "parallel": [["ocr", "again"]],
    }
    return build_protocol("own.json", definition, {}, {"ocr": "OCR"})


@pytest.mark.parametrize("protocol", [*registry(), own()], ids=lambda protocol: protocol.definition.protocol_id)
def test_all_of_a_definition_is_sent(protocol: Protocol) -> None:
    """Every member that is not at its default, the schema of each step's payload, and the digest; nothing else."""
    sent = body(protocol_response(protocol))
    schemas = {step["step_id"]: step.pop("payload_schema") for step in sent["steps"] if "payload_schema" in step}
    assert schemas == protocol.schemas
    assert sent.pop("digest") == protocol.digest
    definition = protocol.definition.model_dump(mode="json", exclude_none=True, exclude_defaults=True)
    for step in definition["steps"]:
        # in a definition the name of a file
        step.pop("payload_schema", None)
    assert sent == definition


def test_a_protocol_fits_its_schema() -> None:
    """As the OpenAPI document declares it."""
    for protocol in (*registry(), own()):
        assert misfits(ProtocolResponse, body(protocol_response(protocol))) == []
