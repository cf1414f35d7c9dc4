"""Sees that an app's files have changed, by looking at their times."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

_INTERVAL_S = 0.5
_SKIPPED = frozenset({"__pycache__", "node_modules", "tests"})
_SUFFIXES = frozenset({".py", ".json"})


async def changed(app_dir: Path) -> Path:
    """Waits until a Python or JSON file of the app has changed, come or gone; which one."""
    before = dict(_files(app_dir))
    while True:
        await asyncio.sleep(_INTERVAL_S)
        after = dict(_files(app_dir))
        if after != before:
            return next(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))


def _files(app_dir: Path) -> Iterator[tuple[Path, int]]:
    for folder, names, files in os.walk(app_dir):
        names[:] = [name for name in names if name not in _SKIPPED and not name.startswith(".")]
        for name in files:
            path = Path(folder, name)
            if path.suffix in _SUFFIXES:
                try:
                    yield path, path.stat().st_mtime_ns
                except FileNotFoundError:
                    continue  # an editor's temporary file
