"""The reading order of a page. Columns of prose come one after the other, and tables and forms come by row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Generic, TypeVar

T = TypeVar("T")

#: separator of a row's cells
CELL_SEPARATOR = " | "
#: share of the text's height: a wider gap is between cells or columns. The recogniser pads its boxes and does not
#: divide a line between words. On 21 scans the least gap in a row was 0.43, and it was between cells
CELL_GAP = 0.4
#: minimum rows that two columns of prose have beside each other
MIN_COLUMN_ROWS = 4
#: limit, not tuning: minimum share of a page's runs that begin at the left edge of a column; at most 20 edges are tried
MIN_COLUMN_SHARE = 0.05
#: share of a column's width that its lines fill, by their median; cells of a table fill less
MIN_COLUMN_FILL = 0.8
#: characters of a line of prose, by the median; cells of a table have fewer (decision 63)
MIN_COLUMN_LETTERS = 20


@dataclass(frozen=True)
class Run(Generic[T]):
    """Text without a wide gap. Coordinates refer to the upright page, with the origin at the top left."""

    text: str
    left: float
    top: float
    right: float
    bottom: float
    #: the caller's own data of the run
    source: T

    @property
    def middle(self) -> float:
        return (self.top + self.bottom) / 2

    @property
    def height(self) -> float:
        return max(self.bottom - self.top, 1e-6)


def reading_order(runs: Sequence[Run[T]]) -> list[list[Run[T]]]:
    """Returns the rows of the page in reading order, each from left to right."""
    gutter = _gutter(runs)
    if gutter is None:
        return _rows(runs)
    x, top, bottom = gutter
    within = [run for run in runs if top <= run.middle <= bottom]
    parts = (
        [run for run in runs if run.middle < top],
        [run for run in within if run.right <= x],
        [run for run in within if run.right > x],
        [run for run in runs if run.middle > bottom],
    )
    return [row for part in parts if part for row in reading_order(part)]


def row_text(row: Sequence[Run[T]]) -> str:
    """Returns the text of a row, with a separator between its cells."""
    text = row[0].text
    for before, run in pairwise(row):
        is_cell = run.left - before.right > CELL_GAP * min(before.height, run.height) and before.text[-1:] != ":"
        text += (CELL_SEPARATOR if is_cell else " ") + run.text
    return text


def _rows(runs: Sequence[Run[T]]) -> list[list[Run[T]]]:
    rows: list[list[Run[T]]] = []
    for run in sorted(runs, key=lambda run: run.middle):
        row = rows[-1] if rows else None
        if row and abs(run.middle - row[-1].middle) < 0.5 * min(run.height, row[-1].height):
            row.append(run)
        else:
            rows.append([run])
    return [sorted(row, key=lambda run: run.left) for row in rows]


def _gutter(runs: Sequence[Run[T]]) -> tuple[float, float, float] | None:
    """Returns (x, top, bottom) of the gap between the two columns of prose with the most rows, or None if the page has
    no columns.
    """
    found: list[tuple[int, tuple[float, float, float]]] = []
    downwards = sorted(runs, key=lambda run: run.middle)
    for x in _left_edges(runs):
        band: list[Run[T]] = []
        # the last one ends the last band
        for run in [*downwards, None]:
            if run is not None and not run.left < x - 1 < run.right:
                band.append(run)
                continue
            band = _above_a_table(band, x)
            rows = _column_rows(band, x)
            if rows:
                found.append((rows, (x - 1, min(run.top for run in band), max(run.bottom for run in band))))
            band = []
    return max(found, key=lambda each: each[0])[1] if found else None


def _left_edges(runs: Sequence[Run[T]]) -> list[float]:
    """Returns the least left edge of each group of runs whose left edges differ by less than half a line's height."""
    edges: list[list[float]] = []
    for run in sorted(runs, key=lambda run: run.left):
        if edges and run.left - edges[-1][0] < run.height / 2:
            edges[-1].append(run.left)
        else:
            edges.append([run.left])
    least = max(MIN_COLUMN_ROWS, MIN_COLUMN_SHARE * len(runs))
    return [group[0] for group in edges if len(group) >= least]


def _above_a_table(band: Sequence[Run[T]], x: float) -> list[Run[T]]:
    """Returns the runs of a band above its first table, from top to bottom. A table begins below a gap, with short
    cells on both sides of `x`.
    """
    groups: list[list[Run[T]]] = []
    bottom = 0.0
    for run in band:
        if groups and run.top - bottom < run.height:
            groups[-1].append(run)
        else:
            groups.append([run])
        bottom = max(bottom, run.bottom)
    kept: list[Run[T]] = []
    for group in groups:
        sides = [run for run in group if run.right <= x], [run for run in group if run.right > x]
        if kept and all(len(side) > 1 and _letters(side) < MIN_COLUMN_LETTERS for side in sides):
            break
        kept += group
    return kept


def _letters(side: Sequence[Run[T]]) -> float:
    return median(len(run.text) for run in side)


def _column_rows(band: Sequence[Run[T]], x: float) -> int:
    """Returns the number of lines of the shorter of two columns of prose that x divides, or 0 if the columns are not
    prose.
    """
    counts = []
    for side in ([run for run in band if run.right <= x], [run for run in band if run.right > x]):
        if len(side) < MIN_COLUMN_ROWS:
            return 0
        width = max(run.right for run in side) - min(run.left for run in side)
        if median(run.right - run.left for run in side) < MIN_COLUMN_FILL * width:
            return 0
        if _letters(side) < MIN_COLUMN_LETTERS:
            return 0
        counts.append(len(side))
    return min(counts)
