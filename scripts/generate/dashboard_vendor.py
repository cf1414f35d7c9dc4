"""The dashboard's libraries in `dashboard/vendor`, which are byte-for-byte copies of files of `node_modules`."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
VENDOR = ROOT / "dashboard" / "vendor"
#: name in `dashboard/vendor` to its file in `node_modules`
FILES = {
    "preact.js": "preact/dist/preact.mjs",
    "preact-hooks.js": "preact/hooks/dist/hooks.mjs",
    "htm.js": "htm/dist/htm.mjs",
    "signals.js": "@preact/signals/dist/signals.mjs",
    "signals-core.js": "@preact/signals-core/dist/signals-core.mjs",
    "virtual-core/index.js": "@tanstack/virtual-core/dist/esm/index.js",
    "virtual-core/utils.js": "@tanstack/virtual-core/dist/esm/utils.js",
    "virtual-core/ios-gesture.js": "@tanstack/virtual-core/dist/esm/ios-gesture.js",
    "virtual-core/lazy-measurements.js": "@tanstack/virtual-core/dist/esm/lazy-measurements.js",
    "virtual-core/scroll-classifier.js": "@tanstack/virtual-core/dist/esm/scroll-classifier.js",
    "oauth4webapi.js": "oauth4webapi/build/index.js",
    "uplot.js": "uplot/dist/uPlot.esm.js",
    "uplot.css": "uplot/dist/uPlot.min.css",
}


def files() -> dict[Path, str]:
    """Returns each copy with the text of its original."""
    return {
        VENDOR / name: (ROOT / "node_modules" / original).read_text(encoding="utf-8")
        for name, original in FILES.items()
    }
