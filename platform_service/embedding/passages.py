"""Splits text into passages of whole sentences of one page. A passage repeats the last sentences of the previous
passage of its page, if they fit.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise

from platform_service.embedding.source_text import TextPage
from platform_service.embedding.structure import header, is_heading, is_laid_out, is_row

#: A line of at least this share of the length of the page's long lines was broken at the margin. It continues in the
#: next line.
FULL_LINE_SHARE = 0.75
#: minimum characters of a full line; shorter lines (addresses, signatures) are not broken at a margin
MIN_FULL_LINE = 20

_SENTENCE_END = re.compile(r"(?<=[.!?])[\"')\]]*\s+(?=[\"'(\[]?[A-Z0-9ÄÖÜÉ])")
_LIST_ITEM = re.compile(r"\s*(?:[-*•]|\(?\d{1,3}[.)]|\(?[a-z]\)|#{1,6})\s+\S")
#: a dot after one of these does not end a sentence
_ABBREVIATIONS = frozenset(
    ["mr", "mrs", "ms", "dr", "prof", "no", "nr", "st", "vs", "etc", "e.g", "i.e", "fig", "art", "sec", "approx"]
)


@dataclass(frozen=True)
class Passage:
    """A run of sentences of one page. Sentences of a paragraph are joined by a space, and paragraphs by a line
    break.
    """

    #: number of the passage in the document, from 0
    index: int
    page: int
    text: str


@dataclass(frozen=True)
class _Unit:
    """A sentence, a row or a heading, with the separator before it."""

    separator: str
    text: str
    #: `True` if the block is the heading of the next ones
    heads: bool


def split_passages(pages: list[TextPage], chunk_size: int, overlap: int) -> list[Passage]:
    """Splits pages into passages of up to `chunk_size` characters.

    A passage begins with the heading above and the last sentences of the previous passage of its page, if they fit. The
    repeated text has at most `overlap` characters, and at most half of `chunk_size`. A heading, and the first row of a
    table, is in the passage of the next text. Every sentence is in at least one passage, and is cut only if the
    sentence is longer than `chunk_size`.

    A passage is longer than `chunk_size` only if a heading and the next text together are longer.
    """
    passages: list[Passage] = []
    max_repeated = min(overlap, chunk_size // 2)
    for page in pages:
        units: list[_Unit] = []
        new_units = 0
        for unit in _units(page.text, chunk_size):
            if new_units and _length([*units, unit]) > chunk_size:
                kept, headings = _without_last_headings(units[-new_units:])
                passages.append(Passage(len(passages), page.number, _join_units([*units[:-new_units], *kept])))
                units = [*_tail([*units[:-new_units], *kept], max_repeated), *headings]
                while len(units) > len(headings) and _length([*units, unit]) > chunk_size:
                    units = units[1:]
                new_units = len(headings)
            units.append(unit)
            new_units += 1
        if new_units:
            passages.append(Passage(len(passages), page.number, _join_units(units)))
    return passages


def sentences(text: str) -> list[str]:
    """Returns the sentences of a passage or paragraph, and the lines that are not sentences."""
    return [sentence for line in text.split("\n") for sentence in _sentences_of(line)]


def paragraphs(text: str) -> list[str]:
    """Joins lines that were broken at a margin. Such line breaks come from the layout, not from the author."""
    lines = [line.strip() for line in text.split("\n")]
    lengths = sorted(len(line) for line in lines if line)
    # a few lines that are longer, such as rows of a table, do not count
    full = max(MIN_FULL_LINE, FULL_LINE_SHARE * lengths[int(0.9 * (len(lengths) - 1))]) if lengths else 0
    joined: list[str] = []
    continues = False
    for line in lines:
        if not line:
            continues = False
            continue
        is_list_item = _LIST_ITEM.match(line) is not None or is_laid_out(line)
        if continues and not is_list_item:
            joined[-1] = _join_broken_line(joined[-1], line)
        else:
            joined.append(line)
        continues = not is_laid_out(line) and (
            len(line) >= full or (continues and not is_list_item and line[-1:] in ",;-")
        )
    return joined


def _join_broken_line(before: str, line: str) -> str:
    if re.search(r"[a-z]-$", before) and line[:1].islower():
        return before[:-1] + line
    return f"{before} {line}"


def _sentences_of(paragraph: str) -> list[str]:
    complete: list[str] = []
    start = 0
    for end in _SENTENCE_END.finditer(paragraph):
        words = paragraph[start : end.start()].split()
        last = words[-1].rstrip(".").lstrip("(").lower() if words else ""
        if last in _ABBREVIATIONS or (len(words) == 1 and re.fullmatch(r"[\dA-Za-z]+(\.\d+)*\.", words[0])):
            continue  # an abbreviation, or the number of a section
        complete.append(paragraph[start : end.start()].strip() + paragraph[end.start() : end.end()].strip())
        start = end.end()
    rest = paragraph[start:].strip()
    return [*complete, rest] if rest else complete


def _units(text: str, chunk_size: int) -> list[_Unit]:
    units: list[_Unit] = []
    before = ""
    for line, after in pairwise([*paragraphs(text), ""]):
        heads = is_heading(line, after) or (not is_row(before) and is_row(line) and bool(header([line, after])))
        before = line
        separator = "\n"
        for sentence in [line] if heads or is_row(line) else _sentences_of(line):
            for part in _cut(sentence, chunk_size):
                units.append(_Unit(separator, part, heads))
                separator = " "
    return units


def _without_last_headings(units: list[_Unit]) -> tuple[list[_Unit], list[_Unit]]:
    """Splits off the headings at the end. If all units are headings, returns all units and an empty list."""
    end = len(units)
    while end and units[end - 1].heads:
        end -= 1
    return (units[:end], units[end:]) if end else (units, [])


def _cut(sentence: str, max_length: int) -> list[str]:
    """Cuts a sentence that is longer than a passage between words. A word that is longer than a passage is cut too."""
    parts: list[str] = []
    while len(sentence) > max_length:
        cut = sentence.rfind(" ", 1, max_length + 1)
        cut = cut if cut > 0 else max_length
        parts.append(sentence[:cut].rstrip())
        sentence = sentence[cut:].lstrip()
    return [*parts, sentence] if sentence else parts


def _join_units(units: list[_Unit]) -> str:
    return "".join(unit.separator + unit.text for unit in units).strip()


def _length(units: list[_Unit]) -> int:
    return sum(len(unit.text) + 1 for unit in units) - 1


def _tail(units: list[_Unit], max_length: int) -> list[_Unit]:
    """Returns the last units, of at most `max_length` characters together, after their heading."""
    above = [unit for unit in units if unit.heads][-1:]
    start = len(units)
    while start > 0 and _length([*above, *units[start - 1 :]]) <= max_length:
        start -= 1
    tail = units[start:]
    if not above or above[0] in tail or _length([*above, *tail]) > max_length:
        return tail
    return [*above, _Unit("\n", tail[0].text, tail[0].heads), *tail[1:]] if tail else above
