"""The deployed files, which `.funcignore` does not name."""

from __future__ import annotations

from pathlib import Path

#: content of the package's requirements.txt: each deployed package, by version and hash
LOCK = "requirements.lock"


def ignored(root: Path) -> list[str]:
    """Returns the lines of `.funcignore`: names of files and whole folders."""
    lines = (root / ".funcignore").read_text().splitlines()
    return [line.strip().rstrip("/") for line in lines if line.strip() and not line.startswith("#")]


def packaged(root: Path) -> list[Path]:
    """Returns the relative paths of the files that are deployed."""
    names = ignored(root)
    return sorted(path.relative_to(root) for path in _files(root, root, names))


def _files(root: Path, folder: Path, names: list[str]) -> list[Path]:
    found = []
    for path in folder.iterdir():
        relative = path.relative_to(root).as_posix()
        if any(relative == name or path.name == name for name in names):
            continue
        found += _files(root, path, names) if path.is_dir() and not path.is_symlink() else [path]
    return found
