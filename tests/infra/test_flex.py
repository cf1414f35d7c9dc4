"""Flex Consumption refuses properties of a site by name, also where they are null."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra.checks import flex
from infra.checks.template import parse
from tests.jobs import ROOT

APP = ROOT / "infra" / "bicep" / "modules" / "function-app.bicep"
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
    found = flex.check(parse(tmp_path / "app.bicep"))
    assert [each.text.split()[0].removeprefix("siteConfig.") for each in found] == names
