"""Percentiles, and figures as lines of text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

PERCENTILES = (50, 95, 99)


def percentiles(values: Iterable[float]) -> dict[str, float]:
    """The smallest value that so many percent do not exceed, by names like `p50`; {} without values."""
    ordered = sorted(values)
    if not ordered:
        return {}
    return {f"p{share}": ordered[max(0, -(-len(ordered) * share // 100) - 1)] for share in PERCENTILES}


def text_table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Columns as wide as they need be; the first to the left, the others to the right."""
    lines = [list(map(str, head)), *([shown(cell) for cell in row] for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if column else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in lines
    )


def shown(cell: Any) -> str:
    """A number with three digits, or as many as stand before its point."""
    if not isinstance(cell, float):
        return str(cell)
    return f"{cell:,.0f}" if abs(cell) >= 100 else f"{cell:.3g}" if cell else "0"
