"""The API page with the viewer Scalar, which shows `/v1/openapi.json`. The page loads nothing from another host."""

from __future__ import annotations

import json
from html import escape
from pathlib import Path

#: version of the npm package @scalar/api-reference; docs/decisions/0052-scalar-shows-the-api.md has the steps of an
#: update
_VERSION = "1.76.0"
SCRIPT = f"scalar-{_VERSION}.js"
#: hash of the script; a browser runs no other one (W3C Subresource Integrity)
INTEGRITY = "sha384-oH1C0RwqcwbVXkC+r8A+4qRoyEUQdtxAzOwumkxZtQBBcsy61FOoPt7B50OVJYYQ"
#: hashes of the three `<style>` elements that the script adds
_STYLES = (
    "'sha256-QpRH++jfSE25E/ku5JwG+oucjRD32SqdyuYxGFVNDSA='",
    "'sha256-l/2OpPg0d+2VLTLgwjf5mQo2CYwHDEqdj5TjbfEyVJI='",
    "'sha256-T13Uev3xCax2N28XaoAE8DOzQZKvPp7ZQVAi1iRREjo='",
)
#: the page's Content-Security-Policy: requests to the app only, no `eval`, no other style element
POLICY = (
    "default-src 'none'; script-src 'self'; connect-src 'self'; img-src data:; "
    f"style-src-elem {' '.join(_STYLES)}; style-src-attr 'unsafe-inline'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)

#: the page sends no request to the API, so it never has a token; requests to Scalar's servers are off
_CONFIGURATION = {
    "url": "openapi.json",
    "hideTestRequestButton": True,
    "hideClientButton": True,
    "showDeveloperTools": "never",
    "withDefaultFonts": False,
    "telemetry": False,
    "agent": {"disabled": True},
    "mcp": {"disabled": True},
    "documentDownloadType": "direct",
}

#: the page as HTML; its links are relative, so that it also works behind a path of a proxy
PAGE = (
    '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, '
    'initial-scale=1"><meta name="color-scheme" content="light dark"><title>LUCIUS '
    "API</title></head><body><noscript><h1>LUCIUS API</h1><p>This page needs JavaScript. Without JavaScript, read the "
    '<a href="openapi.json">OpenAPI document</a> and the <a href="problems">error codes</a>.</p></noscript><script '
    f'id="api-reference" data-configuration="{escape(json.dumps(_CONFIGURATION))}"></script><script '
    f'src="docs/{SCRIPT}" integrity="{INTEGRITY}"></script></body></html>'
)


def packed_script() -> bytes:
    """Returns the viewer in gzip."""
    return (Path(__file__).parent / "scalar" / f"{SCRIPT}.gz").read_bytes()
