"""Short names for documents."""

from __future__ import annotations

from collections.abc import Sequence


def unique_labels(names: Sequence[str]) -> list[str]:
    """The last part of each path or URI; a name that was there before gets its number: `a.pdf`, `a.pdf (2)`."""
    labels: list[str] = []
    for name in names:
        short = name.rstrip("/").rsplit("/", 1)[-1] or name
        label, number = short, 2
        while label in labels:
            label, number = f"{short} ({number})", number + 1
        labels.append(label)
    return labels
