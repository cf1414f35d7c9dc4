"""Figures with machine, date and commit, stored as JSON for docs/explanation/performance.md."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
#: results that the page shows, a file for each command: `{part: {"machine", "date", "commit", "figures"}}`
RECORDED = ROOT / "docs" / "explanation" / "performance"


def measured(figures: Any) -> dict[str, Any]:
    """Returns figures that were measured now, with this machine and the commit that is checked out."""
    return {
        "machine": machine(),
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "commit": commit(),
        "figures": rounded(figures),
    }


def write(path: Path, parts: dict[str, Any], *, keep: bool = False) -> None:
    """Writes the parts. With `keep` the other parts of the file stay."""
    before = json.loads(path.read_text()) if keep and path.exists() else {}
    path.write_text(json.dumps({**before, **parts}, indent=1, sort_keys=True) + "\n")


def machine() -> str:
    """Returns processor, cores, memory and Python."""
    model = "unknown processor"
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [line.partition(":")[2].strip() for line in info.read_text().splitlines() if "model name" in line]
        model = names[0] if names else model
    gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{model}, {cores} cores, {gib:.0f} GiB, {platform.python_implementation()} {platform.python_version()}"


def commit() -> str:
    """Returns the commit, with `+` if files differ from it, or `unknown` without git."""

    def git(*words: str) -> str:
        done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
        return done.stdout.strip()

    try:
        found = git("rev-parse", "--short=7", "HEAD")
        return f"{found}{'+' if git('status', '--porcelain', '--untracked-files=no') else ''}" if found else "unknown"
    except FileNotFoundError:
        return "unknown"


def rounded(figures: Any) -> Any:
    """Rounds floats to four significant digits. Returns whole numbers and other values unchanged."""
    if isinstance(figures, dict):
        return {str(name): rounded(each) for name, each in figures.items()}
    if isinstance(figures, list | tuple):
        return [rounded(each) for each in figures]
    return float(f"{figures:.4g}") if isinstance(figures, float) else figures
