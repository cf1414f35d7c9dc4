"""Finds the possible answers in a passage, such as sentences, pairs of sentences, rows of tables, and labels with their
values.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from platform_service.embedding.passages import sentences
from platform_service.embedding.structure import (
    MAX_HEADING,
    cells,
    field,
    fields,
    header,
    is_heading,
    is_item,
    is_row,
)

_FIGURE = re.compile(r"\d")
#: at least two words with a capital, and a role in brackets
_ROLE = re.compile(r"\b((?:[A-Z][\w'\u2019.-]{0,40}\s){2,4})\((?!the )([a-z][^,;:()]{2,40})\)")


@dataclass(frozen=True)
class Candidate:
    """Text that may answer a question."""

    #: the answer
    text: str
    #: text of its citation, word for word as in the passage
    quote: str
    #: the nearest heading above it, or ""
    context: str = ""
    #: label of a value; "" for a sentence or a row
    label: str = ""
    #: text after the label
    value: str = ""
    #: cells of a row, each with the heading of its column, or with ""
    cells: tuple[tuple[str, str], ...] = ()
    #: two sentences, or a short line with the line below it
    is_pair: bool = False


def candidates(passage: str) -> list[Candidate]:
    """Returns all candidates of a passage, in its order."""
    lines = passage.split("\n")
    found: list[Candidate] = []
    context = ""
    place = 0
    while place < len(lines):
        if is_row(lines[place]):
            end = next((at for at in range(place, len(lines)) if not is_row(lines[at])), len(lines))
            found += _rows(lines[place:end], context)
            place = end
            continue
        after = lines[place + 1] if place + 1 < len(lines) else ""
        if is_heading(lines[place], after):
            context = lines[place]
        else:
            labelled = field(lines[place])
            found += [Candidate(lines[place], lines[place], context, *labelled)] if labelled else []
            found += _roles(lines[place], context)
            found += _prose(lines[place], after, context) if not labelled else []
        place += 1
    return found


def _roles(line: str, context: str) -> Iterator[Candidate]:
    """Yields names with their roles: `Jane Roe (chair)`."""
    for found in _ROLE.finditer(line):
        yield Candidate(found[0], found[0], context, found[2], found[1].strip())


def _prose(line: str, after: str, context: str) -> list[Candidate]:
    alone = sentences(line)
    found = [Candidate(sentence, sentence, context) for sentence in alone]
    found += [Candidate(f"{one} {other}", f"{one} {other}", context, is_pair=True) for one, other in pairwise(alone)]
    if alone and line[-1:] not in ".!?" and len(line) < MAX_HEADING and after and after[-1:] not in ".!?":
        # "Opening hours" alone answers nothing
        found.append(Candidate(f"{line} {after}", line, context, is_pair=True))
    return found


def _rows(rows: list[str], context: str) -> Iterator[Candidate]:
    columns = header(rows)
    widths = Counter(len(cells(row)) for row in rows)
    # a row of two cells with a figure may be the total of a table
    has_labels = any(len(pair := cells(row)) == 2 and not _FIGURE.search(pair[1]) for row in rows)
    for row in rows[1:] if columns else rows:
        inside = cells(row)
        # rows of one width are a table, whose header may be on the page before
        labelled = [] if columns else fields(inside, is_form=has_labels and widths[len(inside)] == 1)
        for label, value in labelled:
            yield Candidate(f"{label}: {value}", row, context, label, value)
        if not columns and is_item(inside):
            yield Candidate(" ".join(inside), row, context)
        elif not labelled:
            headings = columns if len(columns) == len(inside) else [""] * len(inside)
            yield Candidate(row, row, context, cells=tuple(zip(headings, inside, strict=True)))
