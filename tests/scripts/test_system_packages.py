"""`scripts/system_packages.sh` with stand-ins for apt-get, dpkg, id and sudo."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.running_stack import ROOT


@pytest.mark.parametrize(
    ("user", "sudo", "browser", "environment", "installed"),
    [
        ("0", 1, "", {}, ["chromium", "curl"]),
        ("0", 1, "google-chrome", {}, ["curl"]),
        ("1000", 0, "", {}, []),
        ("1000", 0, "", {"CI": "true"}, ["chromium", "curl"]),
        ("1000", 1, "", {"CI": "true"}, []),
    ],
    ids=["root", "root with Chrome", "a person", "CI", "CI whose sudo asks for a password"],
)
def test_who_gets_packages(
    tmp_path: Path, user: str, sudo: int, browser: str, environment: dict[str, str], installed: list[str]
) -> None:
    """Root and CI get the packages of apt.txt that the machine lacks; sudo is used on request only."""
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts" / "system_packages.sh", tmp_path / "scripts")
    (tmp_path / "apt.txt").write_text("make\nchromium\ncurl\n")
    programs = {
        "id": f"echo {user}",
        "dpkg": '[ "$2" = make ]',
        "sudo": f'[ {sudo} = 0 ] || exit 1; shift; exec "$@"',
        "apt-get": 'for last; do :; done; [ "$1" = update ] || echo "$last" >>calls',
        **({browser: ""} if browser else {}),
    }
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, script in programs.items():
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)
    for name in ("sh", "dirname", "env", "true"):
        (folder / name).symlink_to(shutil.which(name) or name)
    command = ["sh", "scripts/system_packages.sh"]
    subprocess.run(command, cwd=tmp_path, env={"PATH": str(folder), **environment}, check=True, timeout=60)
    calls = tmp_path / "calls"
    assert (calls.read_text().split() if calls.exists() else []) == installed
