"""Checks that each summary of an operation is a verb of the list and its object, in 2 to 6 words without a comma (`make
lint`).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

#: the document that `make generate` wrote
DOCUMENT = Path(__file__).resolve().parents[1] / "docs" / "openapi.json"
# fmt: off
VERBS = {
    "Admit", "Cancel", "Check", "Create", "Delete", "Dismiss", "Explain", "Get",
    "Hold", "List", "Pause", "Redeliver", "Redrive", "Replay", "Reset", "Resolve", "Resume",
    "Rotate", "Run", "Send", "Submit", "Sum", "Throttle", "Update",
}
# fmt: on
_SHORTEST, _LONGEST = 2, 6


def findings(document: dict[str, Any]) -> Iterator[str]:
    """Yields the operation, its summary and the broken rule."""
    for path, item in document["paths"].items():
        for method, operation in item.items():
            summary = operation["summary"]
            words, named = summary.split(), f"{method.upper()} {path}: {summary!r}"
            if not words or words[0] not in VERBS:
                yield f"{named} does not begin with one of: {', '.join(sorted(VERBS))}"
            if not _SHORTEST <= len(words) <= _LONGEST:
                yield f"{named} has {len(words)} words, not {_SHORTEST} to {_LONGEST}"
            if "," in summary:
                yield f"{named} has a comma"


def main() -> int:
    wrong = list(findings(json.loads(DOCUMENT.read_text("utf-8"))))
    print(*wrong, sep="\n", end="\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
