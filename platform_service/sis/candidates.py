"""What may be an answer in a passage: sentences, two sentences, rows of tables, and fields of forms."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from platform_service.embedding.passages import sentences
from platform_service.embedding.structure import cells, field, header, is_heading, is_row

#: in characters; two sentences that are longer together are no answer
MAX_PAIR = 300


@dataclass(frozen=True)
class Candidate:
    """Text that may answer a question."""

    #: the answer
    text: str
    #: the same, word for word as in the passage
    quote: str
    #: the headings above it
    context: str = ""
    #: of a row its first cell, of a field its label; "": it is prose
    name: str = ""
    #: of a field what stands after its label
    value: str = ""
    #: of a row the headings of its columns, without that of the first
    columns: tuple[str, ...] = ()
    #: two sentences
    is_pair: bool = False


def candidates(passage: str) -> list[Candidate]:
    """All candidates of a passage, in its order."""
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
        elif (labelled := field(lines[place])) is not None:
            found.append(Candidate(lines[place], lines[place], context, *labelled))
        else:
            found += _prose(lines[place], after, context)
        place += 1
    return found


def _prose(line: str, after: str, context: str) -> list[Candidate]:
    alone = sentences(line)
    found = [Candidate(sentence, sentence, context) for sentence in alone]
    found += [
        Candidate(f"{one} {other}", f"{one} {other}", context, is_pair=True)
        for one, other in pairwise(alone)
        if len(one) + len(other) < MAX_PAIR
    ]
    if alone and line[-1:] not in ".!?" and len(line) < MAX_PAIR / 5 and after and after[-1:] not in ".!?":
        # "Opening hours" alone answers nothing
        found.append(Candidate(f"{line} {after}", line, context, is_pair=True))
    return found


def _rows(rows: list[str], context: str) -> list[Candidate]:
    columns = header(rows)
    found = []
    for row in rows[1:] if columns else rows:
        inside = cells(row)
        fields = [(each, labelled) for each in inside if (labelled := field(each))]
        if len(fields) > 1:
            found += [Candidate(each, each, context, *labelled) for each, labelled in fields]
        elif columns and len(inside) == len(columns):
            text = ", ".join(f"{column}: {cell}" for column, cell in zip(columns, inside, strict=True))
            found.append(Candidate(text, row, context, inside[0], columns=tuple(columns[1:])))
        else:
            found.append(Candidate(row, row, context, inside[0], " ".join(inside[1:])))
    return found
