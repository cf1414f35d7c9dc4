"""Roles: the ids that Azure gives them, and who has which where."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra.checks import roles
from infra.checks.template import parse

SENDER, RECEIVER = "69a216fc-b8fb-44d8-bc22-1f3c2cd27a39", "4f6d3b9b-027b-4f4c-9142-0e5a2a2247e0"


@pytest.mark.parametrize(("guid", "found"), [(SENDER, 0), (RECEIVER, 1), (SENDER.replace("6", "7"), 1)])
def test_roles_are_named_for_what_they_are(tmp_path: Path, guid: str, found: int) -> None:
    """A role's GUID under another role's name, and a GUID that is no role."""
    file = tmp_path / "roles.bicep"
    file.write_text(f"var roles = {{\n  serviceBusDataSender: '{guid}'\n}}\noutput roles object = roles\n")
    assert len(roles.check_ids(parse(file))) == found
