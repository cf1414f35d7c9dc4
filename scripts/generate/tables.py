"""Tables of the documents, as Markdown."""

from __future__ import annotations

from collections.abc import Iterable


def markdown_table(columns: tuple[str, ...], rows: Iterable[tuple[object, ...]]) -> str:
    """Returns a Markdown table with a line for each row, below the names of the columns."""
    lines = [columns, *rows]
    texts = [f"| {' | '.join(map(str, line))} |" for line in lines]
    return "\n".join([texts[0], "|" + "---|" * len(columns), *texts[1:]])
