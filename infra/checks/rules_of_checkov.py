"""checkov's rules over the templates, offline, in an environment of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from infra.checks import environment
from infra.checks.failure import CheckFailed
from infra.checks.finding import Finding
from infra.checks.plain_resources import plain
from infra.checks.template import parse

HERE = Path(__file__).parent


def check(root: Path, templates: Path) -> list[Finding]:
    """What it finds, less what `checkov.yaml` skips with a reason. Raises CheckFailed."""
    pins = HERE / "checkov.txt"
    bin_ = environment.made(root, "checkov", Path(sys.executable), "-r", str(pins), files=(pins,))
    command = [str(bin_ / "python"), "-m", "checkov.main", "--config-file", str(HERE / "checkov.yaml")]
    sources: dict[str, Path] = {}
    with tempfile.TemporaryDirectory() as folder:
        for path in sorted(templates.rglob("*.bicep")):
            if resources := plain(parse(path)):
                name = "_".join(path.relative_to(templates).parts)
                (Path(folder) / name).write_text(resources)
                sources[name] = path
        # without --quiet: with it, files that could not be read are left out of the answer
        done = subprocess.run(
            [*command, "--directory", folder, "--output", "json", "--compact"],
            capture_output=True,
            text=True,
            check=False,
        )
    try:
        told = json.loads(done.stdout)
    except ValueError:
        said = (done.stderr or done.stdout).strip().splitlines() or ["nothing"]
        raise CheckFailed(f"checkov did not run: {said[-1]}") from None
    found, judged = [], 0
    for report in told if isinstance(told, list) else [told]:
        results = report.get("results", {})
        judged += report.get("summary", {}).get("resource_count", 0)
        for each in results.get("failed_checks", []):
            text = f"{each['check_id']} {each['check_name']} ({each['resource']})"
            found.append(Finding(sources[Path(each["file_path"]).name], 0, "checkov", text))
        found += [
            Finding(sources[Path(path).name], 0, "checkov", "could not be read")
            for path in results.get("parsing_errors", [])
        ]
    if not judged:
        raise CheckFailed("checkov judged no resource at all")
    return found
