"""The page of error codes. The `type` of each problem leads to its code (RFC 9457, 3.1.1)."""

from __future__ import annotations

import base64
import hashlib
import itertools
import re
from collections import defaultdict
from collections.abc import Iterable
from html import escape

from shared.apidocs.operation import refusals_of
from shared.apidocs.route import Route

_STYLE = (
    ":root { color-scheme: light dark; } h2 { font-size: 1rem; margin: 1.5rem 0 0; overflow-wrap: anywhere; } "
    "body { font: 1rem/1.5 system-ui, sans-serif; max-width: 45rem; margin: 2rem auto; padding: 0 1rem; } "
    "p { margin: 0; } :target { outline: 2px solid; outline-offset: .5rem; scroll-margin-top: 1.5rem; }"
)
_STYLE_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
#: the page's Content-Security-Policy
POLICY = (
    f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


def problems_page(routes: Iterable[Route]) -> str:
    """Returns the page as HTML: a section for each code, whose id is the code."""
    sections = "".join(
        f'<section id="{code}"><h2><code>{code}</code></h2>'
        f"<p>HTTP {' or '.join(map(str, statuses))}. {_prose(meaning)}</p></section>"
        for code, statuses, meaning in returned_codes(routes)
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>LUCIUS API: error codes</title><style>{_STYLE}</style></head><body><h1>LUCIUS API: error codes</h1>"
        '<p>Programs read <code>code</code>; <a href="docs">each operation</a> lists the codes that it can return.</p>'
        f"{sections}</body></html>"
    )


def returned_codes(routes: Iterable[Route]) -> list[tuple[str, list[int], str]]:
    """Returns each code that a route can return, in the order of names, with its HTTP statuses and its meanings."""
    found: dict[str, set[tuple[int, str]]] = defaultdict(set)
    for refusal in itertools.chain.from_iterable(map(refusals_of, routes)):
        found[refusal.code].add((refusal.status, refusal.meaning))
    return [
        (
            code,
            sorted({status for status, _ in of_code}),
            " Or: ".join(dict.fromkeys(text for _, text in sorted(of_code))),
        )
        for code, of_code in sorted(found.items())
    ]


def _prose(text: str) -> str:
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text, quote=False))
