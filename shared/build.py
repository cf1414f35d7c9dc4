"""The build: its version, and the commit that packaging recorded. The app never runs git."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from shared.api.health import Build
from shared.contracts.envelope import SCHEMA_MAJOR

#: version in packages/*/pyproject.toml, which are not deployed
VERSION = "0.2.0"

#: file with one line, written next to function_app.py when the app is packaged
COMMIT_FILE = "BUILD_COMMIT"


def commit(environ: Mapping[str, str], root: Path) -> str | None:
    """Returns the commit from the setting LUCIUS_BUILD_COMMIT, or from the file `COMMIT_FILE` of the package. Returns
    None if no commit is recorded.
    """
    try:
        written = environ.get("LUCIUS_BUILD_COMMIT", "").strip() or (root / COMMIT_FILE).read_text("utf-8").strip()
    except OSError:
        return None
    return written[:64] or None


def build_text(build_commit: str | None) -> str:
    """Returns the version with the commit, as `0.2.0, commit 1a2b3c4d5e6f`. Returns the version alone if no commit is
    recorded.
    """
    return f"{VERSION}, commit {build_commit[:12]}" if build_commit else VERSION


def build_info(build_commit: str | None) -> Build:
    """Returns the build for the health response."""
    return Build(version=VERSION, commit=build_commit, envelope=f"{SCHEMA_MAJOR}.x")
