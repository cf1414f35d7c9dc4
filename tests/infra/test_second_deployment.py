"""What a first deployment takes and a later one refuses: found before anybody deploys."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra.checks import second_deployment
from infra.checks.template import parse
from tests.jobs import ROOT

MODULES = ROOT / "infra" / "bicep" / "modules"


SENDER = "guid(replyTopics[lane].id, principalId, serviceBusDataSender)"


@pytest.mark.parametrize(
    ("module", "was", "becomes", "text"),
    [
        ("insights", "      etag: '*'\n", "", "409"),
        ("budget", "param startDate string\n", "param startDate string = utcNow('yyyy-MM-01')\n", "utcNow"),
        ("platform-service-roles", SENDER, SENDER.replace("principalId", "serviceBusName"), "principalId"),
        ("network", "    addressSpace: {\n", "    subnets: []\n    addressSpace: {\n", "subnets"),
    ],
)
def test_a_second_deployment(tmp_path: Path, module: str, was: str, becomes: str, text: str) -> None:
    """A saved search without etag, a date that moves, a role that is named by no identity, a list of subnets."""
    good = (MODULES / f"{module}.bicep").read_text()
    assert was in good
    (tmp_path / "it.bicep").write_text(good)
    assert second_deployment.check(parse(tmp_path / "it.bicep")) == []
    (tmp_path / "it.bicep").write_text(good.replace(was, becomes))
    assert [text in each.text for each in second_deployment.check(parse(tmp_path / "it.bicep"))] == [True]
