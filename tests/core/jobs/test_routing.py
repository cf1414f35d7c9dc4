import zlib
from dataclasses import replace

import pytest

from shared.core.jobs.attempts import make_workspace_ref
from shared.core.jobs.routing import decide_lane, lane_of
from tests.jobs import envelope, planned


def test_default_mode_sticks_to_the_tenant() -> None:
    """DEFAULT routes by the tenant alone, trimmed and lower-cased."""
    decided = decide_lane(envelope(tenant_id="  Tenant_A "), default_mode="DEFAULT", lanes=16)
    assert decided.routing_key_used == "tenant_a"
    assert decided.lane == zlib.crc32(b"tenant_a") % 16 == 15
    assert (decided.resolved_mode, decided.decision_source) == ("DEFAULT", "GLOBAL_CONFIG")


def test_burst_spreads_by_document() -> None:
    """BURST routes by tenant and document."""
    decided = decide_lane(envelope(mode="BURST", doc_id=" Doc-7 "), default_mode="DEFAULT", lanes=16)
    assert decided.routing_key_used == "tenant_adoc-7"
    assert (decided.resolved_mode, decided.decision_source) == ("BURST", "REQUEST")


def test_burst_needs_a_document() -> None:
    """BURST without doc_id is refused, not sent to the tenant's lane."""
    with pytest.raises(ValueError, match="doc_id"):
        decide_lane(envelope(mode="BURST"), default_mode="DEFAULT", lanes=16)


def test_lanes_cover_all_of_them() -> None:
    """A few hundred keys reach every lane."""
    assert {lane_of(f"tenant-{number}", 16) for number in range(400)} == set(range(16))


def test_a_repeated_step_type_has_a_folder_for_each_step() -> None:
    """Below the step type, where a service may write in Azure, two steps do not share a folder."""
    record = planned()
    ocr, embedding, sis = record.steps
    twice = replace(record, steps=(ocr, replace(embedding, step_type="OCR"), sis))
    paths = [make_workspace_ref(twice, step, 1)["uri"].partition("/job_1/")[2] for step in twice.steps]
    assert paths == ["OCR/ocr/1/", "OCR/embedding/1/", "SIS/1/"]
