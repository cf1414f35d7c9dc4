"""What Azure refuses: properties of a site on Flex Consumption, also null, and changes at a second deployment."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra.checks import refusals
from infra.checks.template import parse
from tests.jobs import ROOT

MODULES = ROOT / "infra" / "bicep" / "modules"
APP = MODULES / "function-app.bicep"
SENDER = "guid(replyTopics[lane].id, principalId, serviceBusDataSender)"
COMMON = "        http20Enabled: true\n"


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("", []),
        ("        ftpsState: 'Disabled'\n", ["ftpsState"]),
        ("        linuxFxVersion: isFlex ? null : 'PYTHON|3.12'\n", ["linuxFxVersion"]),
        ("        alwaysOn: isFlex ? false : true\n", ["alwaysOn"]),
    ],
)
def test_what_flex_refuses_is_left_out(tmp_path: Path, line: str, names: list[str]) -> None:
    """What stands in Elastic Premium's branch alone is not sent to Flex."""
    text = APP.read_text()
    assert COMMON in text
    (tmp_path / "app.bicep").write_text(text.replace(COMMON, COMMON + line))
    found = refusals.check(parse(tmp_path / "app.bicep"))
    assert [each.text.split()[0].removeprefix("siteConfig.") for each in found] == names


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
    assert refusals.check(parse(tmp_path / "it.bicep")) == []
    (tmp_path / "it.bicep").write_text(good.replace(was, becomes))
    assert [text in each.text for each in refusals.check(parse(tmp_path / "it.bicep"))] == [True]
