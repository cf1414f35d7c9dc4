"""Which files are deployed: those of the checkout that `.funcignore` does not name."""

from __future__ import annotations

from pathlib import Path

from infra.checks.finding import Finding

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
#: what the package has as its requirements.txt: each package that is deployed, by version and hash
LOCK = "requirements.lock"
#: folders that must not be in it
NOT_APP = ("tests", "emulator", "packages", "platform_service", "benchmarks", "docs", "samples", "scripts")


def ignored(root: Path) -> list[str]:
    """The lines of `.funcignore`: names of files and whole folders."""
    lines = (root / ".funcignore").read_text().splitlines()
    return [line.strip().rstrip("/") for line in lines if line.strip() and not line.startswith("#")]


def packaged(root: Path) -> list[Path]:
    """Relative paths of the files that are deployed."""
    names = ignored(root)
    return sorted(path.relative_to(root) for path in _files(root, root, names))


def check(root: Path) -> list[Finding]:
    """Wrong lines of `.funcignore`, files that it should name, and files of the app that it should not."""
    file = root / ".funcignore"
    if not file.exists():
        return [Finding(file, 0, "funcignore", "is missing: everything would be deployed")]
    found = [
        Finding(file, number, "funcignore", f"{line}: only whole names mean the same to every tool, no ! and no *")
        for number, line in enumerate(file.read_text().splitlines(), start=1)
        if "!" in line or "*" in line
    ]
    files = packaged(root)
    tops = {path.parts[0] for path in files}
    found += [Finding(file, 0, "funcignore", f"{name} would be deployed") for name in NOT_APP if name in tops]
    return found + [Finding(file, 0, "funcignore", f"{name} would not be deployed") for name in APP if name not in tops]


def _files(root: Path, folder: Path, names: list[str]) -> list[Path]:
    found = []
    for path in folder.iterdir():
        relative = path.relative_to(root).as_posix()
        if any(relative == name or path.name == name for name in names):
            continue
        found += _files(root, path, names) if path.is_dir() and not path.is_symlink() else [path]
    return found
