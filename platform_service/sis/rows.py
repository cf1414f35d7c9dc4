"""Finds the row of a table that a question names, and the requested cells of the row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from platform_service.sis.answer_kind import property_fit, value_fit
from platform_service.sis.words import Rarity, stems


@dataclass(frozen=True)
class ReadRow:
    """A row, and its fit to one question."""

    #: `True` if the question has all words of a cell, or only words that are in the row or above it
    is_named: bool
    #: share of the heading of another cell that the question has, 0 to 1
    asked: float
    #: factor up to 1: the fit of another cell to the kind of answer that the question asks for
    fit: float
    #: the named and the asked cell; all cells if the question asks for none in particular
    text: str


def read_row(question: str, row: Sequence[tuple[str, str]], context: str, rarity: Rarity) -> ReadRow:
    """Reads a row of pairs (heading, cell). `context` is the heading above the row."""
    words = set(stems(question))
    inside = [set(stems(cell)) for _, cell in row]
    # of cells that it says equally the longest
    name = max(range(len(row)), key=lambda place: (rarity.overlap(inside[place], words), len(inside[place])))
    around = " ".join(part for cell in row for part in cell)
    without_kind = property_fit(question, around)
    others = {
        place: (rarity.overlap(stems(heading), words), value_fit(question, cell) or without_kind)
        for place, (heading, cell) in enumerate(row)
        if place != name
    }
    best = max(others, key=lambda place: others[place])
    asked, fit = others[best]
    is_one = asked > 0 and [*others.values()].count((asked, fit)) == 1
    shown = [row[place] for place in sorted((name, best))] if is_one else row
    return ReadRow(
        is_named=(bool(inside[name]) and inside[name] <= words) or words <= set(stems(f"{context} {around}")),
        asked=asked,
        # a heading that the question says gives the kind of its cells
        fit=1.0 if asked else fit,
        text=", ".join(f"{heading}: {cell}" if heading else cell for heading, cell in shown),
    )
