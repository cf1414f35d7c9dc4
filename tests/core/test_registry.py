"""What is said about a wrong protocol or payload, and how much of it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from shared.core.registry import Protocol, build_protocol
from shared.errors import ProtocolError
from shared.refusals import MAX_REQUEST_ERROR, MAX_REQUEST_ERRORS
from tests.jobs import registry


@pytest.fixture
def sis() -> Protocol:
    protocol = registry().find("SIS")
    assert protocol is not None
    return protocol


def test_too_many_items_are_one_error(sis: Protocol) -> None:
    """None of them is looked at."""
    [(path, message)] = sis.payload_errors({"sis": {"prompt_set": [1] * 100_000}})
    assert (path, message) == ("payload.sis.prompt_set", "does not fit maxItems 100 of the step's schema")


def test_errors_are_looked_for_up_to_the_bound(sis: Protocol) -> None:
    """One more than are shown, so that it is known that there are more."""
    assert len(sis.payload_errors({"sis": {"prompt_set": [1] * 30}})) == 30
    assert len(sis.payload_errors({"sis": {"prompt_set": [1] * 100}})) == MAX_REQUEST_ERRORS + 1
    protocol = registry().find("OCR_EMBEDDING")
    assert protocol is not None
    assert len(protocol.payload_errors({str(number): 1 for number in range(100_000)})) == MAX_REQUEST_ERRORS + 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"prompt_set": ["q" * 100_000]},
        {"prompt_set": [{"prompt": "q", "id": "i" * 100_000}]},
        {"prompt_set": ["q"], "top_k": 10**4000},
        {"prompt_set": ["q"], "top_k": "v" * 100_000},
        {"prompt_set": ["q"], **{f"v{number}": 1 for number in range(1000)}},
    ],
)
def test_a_message_repeats_no_long_value(sis: Protocol, wrong: dict[str, Any]) -> None:
    """It names the keyword that refused it."""
    found = sis.payload_errors({"sis": wrong})
    assert found
    assert all(len(message) <= MAX_REQUEST_ERROR for _, message in found)
    assert "vvv" not in json.dumps(found)


@pytest.mark.parametrize("name", ["lease_s", "heartbeat_cadence_s"])
def test_a_lease_that_would_busy_everybody_is_refused(name: str) -> None:
    """Each that runs out is a timer, an activity and rows; the message names the place and the bound."""
    definition = {
        "protocol_id": "ocr",
        "version": 1,
        "request_type": "OCR",
    }
    step = {"step_id": "ocr", "step_type": "OCR", "service": "ocr"}
    build_protocol("ocr.json", definition | {"steps": [step | {name: 15}]}, {}, {"ocr": "OCR"})
    with pytest.raises(ProtocolError, match=rf"ocr.json: steps.0.{name}: .*greater than or equal to 15"):
        build_protocol("ocr.json", definition | {"steps": [step | {name: 14.999}]}, {}, {"ocr": "OCR"})
