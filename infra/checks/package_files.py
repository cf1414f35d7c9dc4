"""Checks deployed files, which `.funcignore` does not name, and files that azd, workflows and hooks read."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

from infra.checks.finding import Finding
from infra.package.files import packaged

#: folders and files of the app, all of which must be in the package
APP = (
    "function_app.py",
    "host.json",
    "requirements.txt",
    "triggers",
    "orchestrations",
    "activities",
    "shared",
    "protocols",
)
#: folders that must not be in the package
NOT_APP = ("tests", "emulator", "packages", "platform_service", "benchmarks", "docs", "samples", "scripts")
#: values with which azd deploys to Azure Functions and builds Python, by azd's schema of azure.yaml
_SERVICE = {"host": ("function",), "language": ("py", "python")}
#: a path from the root, as a command or an expression names it
_PATH = re.compile(r"(?<![\w./{}-])(?:infra|scripts|protocols|tests|docs)/[\w./-]*\w(?![\w*{$/-])")
_SCRIPTS = ("infra/hooks", "infra/pipelines")


def check(root: Path) -> list[Finding]:
    """Returns wrong lines of `.funcignore`, files that `.funcignore` should name, and files of the app that
    `.funcignore` should not name.
    """
    file = root / ".funcignore"
    if not file.exists():
        return [Finding(file, 0, "funcignore", "is missing, so each tool deploys all files")]
    found = [
        Finding(
            file, number, "funcignore", f"{line}: must be a whole name without ! and *, which tools read differently"
        )
        for number, line in enumerate(file.read_text().splitlines(), start=1)
        if "!" in line or "*" in line
    ]
    files = packaged(root)
    tops = {path.parts[0] for path in files}
    found += [
        Finding(file, 0, "funcignore", f"{name} is not excluded; add its name") for name in NOT_APP if name in tops
    ]
    return found + [
        Finding(file, 0, "funcignore", f"{name} is excluded; remove its name") for name in APP if name not in tops
    ]


def check_named(root: Path) -> list[Finding]:
    """Checks that azure.yaml names valid values, paths in workflows exist, and sh can read the scripts."""
    return [*_project(root / "azure.yaml"), *_workflows(root), *_scripts(root)]


def _project(path: Path) -> Iterator[Finding]:
    """Checks the app's host and language, by names that azd has, and the folder of the templates."""
    text = path.read_text(encoding="utf-8")
    for name, known in _SERVICE.items():
        value = re.search(rf"(?m)^services:\n  lucius:\n(?:    .*\n)*?    {name}: (\S+)$", text)
        if value is None or value[1] not in known:
            shown = value[1] if value is not None else "absent"
            yield Finding(path, 0, "azd", f"services.lucius.{name} is {shown}, not {' or '.join(known)}")
    folder = re.search(r"(?m)^  path: (\S+)$", text)
    if folder is None or not (path.parent / folder[1]).is_dir():
        yield Finding(path, 0, "azd", f"infra.path: folder not found: {folder[1] if folder else ''}".rstrip())


def _workflows(root: Path) -> Iterator[Finding]:
    for path in [root / "azure.yaml", *sorted((root / ".github" / "workflows").glob("*.yml"))]:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            named = [] if line.lstrip().startswith("#") else _PATH.findall(line)
            for each in named:
                if not (root / each).exists():
                    yield Finding(path, number, "path", f"path not found: {each}")


def _scripts(root: Path) -> Iterator[Finding]:
    for path in sorted(each for folder in _SCRIPTS for each in (root / folder).glob("*.sh")):
        done = subprocess.run(["sh", "-n", str(path)], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            lines = re.search(r"(?:line )?(\d+): (.*)", done.stderr.replace(str(path), ""))
            line, text = (int(lines[1]), lines[2]) if lines else (0, done.stderr.strip())
            yield Finding(path, line, "shell", text)
