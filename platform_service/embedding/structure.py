"""The kinds of lines on a page: rows of tables, fields of forms, headings and prose."""

from __future__ import annotations

import re
from collections.abc import Sequence

#: separator of a row's cells, as OCR and markdown write it
_SEPARATOR = re.compile(r"(?<!\s)\s+\|\s+")
_FIGURE = re.compile(r"\d")
_LETTER = re.compile(r"[^\W\d_]")
_FIELD = re.compile(r"((?:[^\W_][\w'\u2019.()/%-]*\s+){0,5}[\w'\u2019.()/%-]+):\s+(\S.*)")
#: maximum characters of a heading; a longer line is prose
MAX_HEADING = 60


def cells(line: str) -> list[str]:
    """Returns the cells of a row of a table. Returns one cell for any other line."""
    return _SEPARATOR.split(line.strip().strip("|").strip())


def is_row(line: str) -> bool:
    return len(cells(line)) > 1


def field(text: str) -> tuple[str, str] | None:
    """Returns label and value of `Label: value`, or None for other text."""
    found = _FIELD.fullmatch(text.strip())
    return (found[1], found[2]) if found and text[:1].isupper() else None


def is_laid_out(line: str) -> bool:
    """Returns True if the line is complete, like a row or a field. No other line continues such a line."""
    return is_row(line) or field(line) is not None


def is_heading(line: str, after: str) -> bool:
    """Returns True if a line is a heading: a short line above prose, rows or fields that ends with none of `.!?,;`."""
    if not after or len(line) > MAX_HEADING or line[-1:] in ".!?,;" or is_laid_out(line):
        return False
    return after[-1:] in ".!?" or len(after) > MAX_HEADING or is_laid_out(after)


def fields(row: Sequence[str], *, is_form: bool) -> list[tuple[str, str]]:
    """Returns the pairs of label and value in the cells of a row, or an empty list if the cells have no pairs.

    More than two cells are labels with values only in a form, or as `Label: value`.
    """
    labelled = [found for each in row if (found := field(each))]
    if labelled:
        return labelled if len(labelled) > 1 else []
    pairs = list(zip(row[::2], row[1::2], strict=False))
    if len(row) != 2 and (not is_form or len(row) % 2 or any(_FIGURE.search(label) for label, _ in pairs)):
        return []
    if not all(_LETTER.search(label) for label, _ in pairs):
        return []
    return [(label.rstrip(" *:"), value) for label, value in pairs]


def is_item(row: Sequence[str]) -> bool:
    """Returns True if a row is an item of a list: a number or a bullet, and then a text."""
    return len(row) == 2 and not _LETTER.search(row[0])


def header(rows: Sequence[str]) -> list[str]:
    """Returns the column headings of a table. Returns no headings if the first row has figures or fields, is the only
    row, or has another number of cells than the second row.

    Two columns are a table only if at least two further rows exist and each of their values has a digit. Otherwise each
    row is a label with its value.
    """
    first = cells(rows[0])
    others = [cells(row) for row in rows[1:]]
    if not others or len(others[0]) != len(first) or any(_FIGURE.search(cell) or field(cell) for cell in first):
        return []
    if len(first) == 2 and not (len(others) > 1 and all(_FIGURE.search(other[-1]) for other in others)):
        return []
    return first
