"""The dashboard's files for a browser, in gzip. A file's name has a digest of its content, and imports use these names.

The files of `dashboard/` are ES modules. This module replaces each import specifier (`"./parts/time.js"`, `"preact"`)
by the served name of the imported file. So a browser needs no bundler and no import map. The page's policy refuses an
import map, since an import map is an inline script.

A changed file changes its own name, and the names of the files that import the file. So each file is valid forever
under its name.
"""

from __future__ import annotations

import gzip
import hashlib
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / "dashboard"
#: path of the copy by name of the npm package
PACKAGES = {
    "preact": "vendor/preact.js",
    "preact/hooks": "vendor/preact-hooks.js",
    "htm": "vendor/htm.js",
    "@preact/signals": "vendor/signals.js",
    "@preact/signals-core": "vendor/signals-core.js",
    "@tanstack/virtual-core": "vendor/virtual-core/index.js",
    "oauth4webapi": "vendor/oauth4webapi.js",
    "uplot": "vendor/uplot.js",
}
_MEDIA_TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
#: import statements: `from "x"`, `import "x"`, `import("x")`
_IMPORT = re.compile(r'((?:\bfrom|\bimport)\s*(\(?)\s*)"([@\w./-]+)"')
#: HTML attributes with the name of a file
_LINK = re.compile(r'\b(href|src)="([\w/-]+\.\w+)"')
#: a variable that bundlers replace; `@tanstack/virtual-core` uses it
_NODE_ENV = ("process.env.NODE_ENV", '"production"')


@dataclass(frozen=True)
class Asset:
    """A file under its served name. `packed` is `body` in gzip."""

    name: str
    media_type: str
    body: bytes
    packed: bytes
    #: served names of the files that it imports, directly or indirectly, without those of `import()`
    imports: tuple[str, ...]


@dataclass(frozen=True)
class Dashboard:
    """The page as HTML, and its assets by served name."""

    page: str
    assets: dict[str, Asset]
    #: served names of the files that the browser loads before the first view
    first_load: tuple[str, ...]


@cache
def dashboard() -> Dashboard:
    """Returns the dashboard. The first call in a process reads and packs the files."""
    made: dict[str, Asset] = {}
    linked: list[Asset] = []

    def link(match: re.Match[str]) -> str:
        linked.append(_asset(match[2], made))
        return f'{match[1]}="dashboard/assets/{linked[-1].name}"'

    page = _LINK.sub(link, (FOLDER / "index.html").read_text(encoding="utf-8"))
    first = tuple(dict.fromkeys(name for asset in linked for name in (asset.name, *asset.imports)))
    preloads = "".join(
        f'<link rel="modulepreload" href="dashboard/assets/{name}">' for name in first if name.endswith(".js")
    )
    page = page.replace("</head>", f"{preloads}</head>")
    return Dashboard(page, {asset.name: asset for asset in made.values()}, first)


def _asset(path: str, made: dict[str, Asset]) -> Asset:
    """Returns the asset for a file of `dashboard/`. Adds the files that the file imports first. Raises
    FileNotFoundError.
    """
    if path in made:
        return made[path]
    text = (FOLDER / path).read_text(encoding="utf-8")
    imports: dict[str, None] = {}

    def named(match: re.Match[str]) -> str:
        asset = _asset(_file_of(match[3], path), made)
        if not match[2]:
            imports.update(dict.fromkeys((asset.name, *asset.imports)))
        return f'{match[1]}"./{asset.name}"'

    if path.endswith(".js"):
        text = _IMPORT.sub(named, text).replace(*_NODE_ENV)
    body = text.encode()
    digest = hashlib.sha256(body).hexdigest()[:12]
    file = Path(path)
    name = f"{file.with_suffix('').as_posix().replace('/', '-')}-{digest}{file.suffix}"
    packed = gzip.compress(body, 9, mtime=0)
    made[path] = Asset(name, _MEDIA_TYPES[file.suffix], body, packed, tuple(imports))
    return made[path]


def _file_of(specifier: str, importer: str) -> str:
    if specifier in PACKAGES:
        return PACKAGES[specifier]
    return (FOLDER / importer).parent.joinpath(specifier).resolve().relative_to(FOLDER).as_posix()
