"""`make lint`: no text for users has a phrase that docs/contributing/words.md refuses.

`scripts/plain_english.json` has the number of such phrases that a file still has. It may only shrink: `--write` lowers
its numbers after a text was rewritten, and raises none.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
BASELINE = ROOT / "scripts" / "plain_english.json"
#: pages for users, and modules whose strings are shown to them: help, log lines, metrics, settings, reasons
_PAGES = ("README.md", "docs/index.md", "docs/start", "docs/guides", "docs/reference", "docs/explanation")
_MODULES = (
    "packages/lucius-client/lucius_client/cli",
    *(f"shared/{name}.py" for name in ("settings", "access_settings", "refusals", "setting_contradictions")),
    *("shared/telemetry/lines.py", "shared/telemetry/metric_table.py", "shared/core/jobs/reasons.py"),
)
_DOCUMENT = "docs/openapi.json"


def refused_phrases(words: str) -> re.Pattern[str]:
    """Returns what finds the phrases of the table in the page of words; `*` is the rest of a word."""
    table = words.partition("| refused phrase |")[2].partition("\n\n")[0]
    phrases = re.findall(r"^\| ([a-z*' /]+?) \|", table, re.MULTILINE)
    each = [re.escape(part).replace(r"\*", r"\w*") for phrase in phrases for part in phrase.split(" / ")]
    return re.compile(rf"\b({'|'.join(each)})\b", re.IGNORECASE)


def texts_of(name: str, source: str) -> Iterator[tuple[int, str]]:
    """Yields line and text of what a file shows to users; code of a page and JSON keys are left out."""
    if name.endswith(".py"):
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
                yield node.lineno, node.value
    elif name == _DOCUMENT:
        for text in _described(json.loads(source)):
            yield 0, text
    else:
        plain = re.sub(
            r"^```.*?^```", lambda block: "\n" * block[0].count("\n"), source, flags=re.DOTALL | re.MULTILINE
        )
        yield from enumerate(re.sub(r"`[^`\n]*`", "", plain).splitlines(), 1)


def _described(document: Any) -> Iterator[str]:
    if isinstance(document, dict):
        yield from (document[key] for key in ("summary", "description") if isinstance(document.get(key), str))
        document = list(document.values())
    if isinstance(document, list):
        for each in document:
            yield from _described(each)


def main() -> int:
    """Prints what is new. Returns 1 if a file has more phrases than the baseline says, or fewer."""
    refused = refused_phrases((ROOT / "docs" / "contributing" / "words.md").read_text("utf-8"))
    names = ["git", "ls-files", *(f"{each}/*.md" if "." not in each else each for each in _PAGES), *_MODULES, _DOCUMENT]
    files = subprocess.run(names, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    allowed: dict[str, int] = json.loads(BASELINE.read_text("utf-8"))
    kept, wrong = {}, []
    for name in sorted(files):
        found = [
            f"{name}:{line}: {phrase[0]!r}"
            for line, text in texts_of(name, (ROOT / name).read_text("utf-8"))
            for phrase in refused.finditer(text)
        ]
        if len(found) > allowed.get(name, 0):
            wrong += [*found, f"{name}: {len(found)} refused phrases, at most {allowed.get(name, 0)} are allowed"]
        elif len(found) < allowed.get(name, 0) and "--write" not in sys.argv:
            wrong.append(f"{name}: fewer refused phrases than before; run {sys.executable} {sys.argv[0]} --write")
        if number := min(len(found), allowed.get(name, 0)):
            kept[name] = number
    if "--write" in sys.argv:
        BASELINE.write_text(json.dumps(kept, indent=1) + "\n", "utf-8")
    print(*wrong, sep="\n", end="\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
