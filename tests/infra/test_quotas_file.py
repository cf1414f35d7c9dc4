"""`infra/quotas.yaml` and the hook that applies it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from lucius_client.cli.rules_file import read_rules
from tests.infra.walk import Walk
from tests.jobs import ROOT

FILE = ROOT / "infra" / "quotas.yaml"
API = "https://lucius.example.com"


@pytest.fixture
def walk(tmp_path: Path) -> Iterator[Walk]:
    with Walk.begun(tmp_path) as walk:
        yield walk


def given(walk: Walk, lucius: str | None, *, rules: bool = True) -> None:
    """A checkout with rules in the file, or as shipped, and with a command `lucius` that does this."""
    file = walk.checkout / "infra" / "quotas.yaml"
    text = FILE.read_text().replace("quotas: []", "quotas:\n- {tenant: acme, maxActive: 2}")
    file.unlink()
    file.write_text(text if rules else FILE.read_text())
    if lucius is not None:
        (walk.bin / "lucius").write_text(f'#!/bin/sh\necho "$LUCIUS_API $LUCIUS_TOKEN $*"\n{lucius}\n')
        (walk.bin / "lucius").chmod(0o755)


HOOK = "sh infra/hooks/apply_quotas.sh"


def test_the_file_is_the_documented_example(tmp_path: Path) -> None:
    """As shipped it has no rule; its comment, taken for the rules, is the example of the page."""
    assert read_rules(FILE) == []
    text = (ROOT / "docs" / "guides" / "quotas.md").read_text(encoding="utf-8")
    [documented] = re.findall(r"<!-- file: quotas.yaml -->\n```yaml\n(.*?)```", text, re.DOTALL)
    example = "\n".join(re.findall(r"^# ((?:-|  ).*)$", FILE.read_text(), re.MULTILINE))
    (tmp_path / "documented.yaml").write_text(documented)
    (tmp_path / "example.yaml").write_text(f"quotas:\n{example}\n")
    rules = read_rules(tmp_path / "example.yaml")
    assert (len(rules), rules) == (3, read_rules(tmp_path / "documented.yaml"))


def test_rules_are_applied_by_the_command(walk: Walk) -> None:
    """With the environment's URL and a token, once per hook; without rules there is no request."""
    given(walk, "exit 0")
    for _ in range(2):
        done = walk.run(HOOK, LUCIUS_API_URL=API, LUCIUS_TOKEN="t")
        assert (done.code, done.error) == (0, "")
        assert done.output.startswith(f"{API} t quota apply infra/quotas.yaml --reason ")
    given(walk, "exit 0", rules=False)
    done = walk.run(HOOK, LUCIUS_API_URL=API, LUCIUS_TOKEN="t")
    assert (done.code, done.output, done.error) == (0, "", "")


@pytest.mark.parametrize(
    ("lucius", "api", "why"),
    [
        (None, API, "the command lucius is not installed"),
        ("exit 3", API, "not applied"),
        ("exit 0", "", "LUCIUS_API_URL is not set"),
    ],
)
def test_what_keeps_them_from_being_applied_is_printed(walk: Walk, lucius: str | None, api: str, why: str) -> None:
    """The deployment continues; the line has the later action."""
    given(walk, lucius)
    done = walk.run(HOOK, LUCIUS_API_URL=api, LUCIUS_TOKEN="t")
    assert done.code == 0
    assert why in done.output
    assert "lucius quota apply infra/quotas.yaml" in done.output


def test_azd_applies_them_after_provision_and_after_deploy(walk: Walk) -> None:
    """A first `azd up` comes to the second one with an app that answers."""
    given(walk, "exit 0")
    walk.run("azd env new dev")
    done = walk.run("azd up", LUCIUS_TOKEN="t", **walk.state()["azd"])
    assert (done.code, done.error) == (0, "")
    assert done.output.count("quota apply infra/quotas.yaml") >= 1
