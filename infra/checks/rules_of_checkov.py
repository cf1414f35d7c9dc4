"""checkov's rules over the templates, offline, in an environment of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from infra.checks import environment
from infra.checks.failure import CheckFailed
from infra.checks.finding import Finding

HERE = Path(__file__).parent


def check(root: Path, templates: Path) -> list[Finding]:
    """What it finds, less what `checkov.yaml` skips with a reason. Raises CheckFailed."""
    pins = HERE / "checkov.txt"
    bin_ = environment.made(root, "checkov", Path(sys.executable), "-r", str(pins), files=(pins,))
    command = [str(bin_ / "python"), "-m", "checkov.main", "--config-file", str(HERE / "checkov.yaml")]
    done = subprocess.run(
        [*command, "--directory", str(templates), "--output", "json", "--compact", "--quiet"],
        capture_output=True,
        text=True,
        check=False,
    )
    try:
        told = json.loads(done.stdout)
    except ValueError:
        said = (done.stderr or done.stdout).strip().splitlines() or ["nothing"]
        raise CheckFailed(f"checkov did not run: {said[-1]}") from None
    found = []
    for report in told if isinstance(told, list) else [told]:
        results = report.get("results", {})
        for each in results.get("failed_checks", []):
            text = f"{each['check_id']} {each['check_name']} ({each['resource']})"
            found.append(Finding(Path(each["repo_file_path"].lstrip("/")), each["file_line_range"][0], "checkov", text))
        found += [
            Finding(Path(path), 0, "checkov", "could not be parsed") for path in results.get("parsing_errors", [])
        ]
    return found
