"""Percentiles, and figures as rows of text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

PERCENTILES = (50, 95, 99)


def percentiles(values: Iterable[float]) -> dict[str, float]:
    """Returns percentiles by names such as `p50`, or {} without values.

    A percentile is the smallest value that is at least as large as this percentage of the values.
    """
    ordered = sorted(values)
    if not ordered:
        return {}
    return {f"p{share}": ordered[max(0, -(-len(ordered) * share // 100) - 1)] for share in PERCENTILES}


def text_table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Returns columns of minimum width, the first aligned left, the others right."""
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
    """Returns a number with three significant digits, or all digits before its point if there are more."""
    if not isinstance(cell, float):
        return str(cell)
    return f"{cell:,.0f}" if abs(cell) >= 100 else f"{cell:.3g}" if cell else "0"
