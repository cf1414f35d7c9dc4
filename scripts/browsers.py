"""Finds the browser of this machine: Chromium, Chrome or Edge."""

from __future__ import annotations

import shutil

_NAMES = (
    *("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "microsoft-edge"),
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Microsoft Edge.app/Contents/MacOS/Microsoft Edge",
)


def find_browser() -> str | None:
    """Returns the path of the first installed browser, or None if no browser is installed."""
    return next(filter(None, map(shutil.which, _NAMES)), None)
