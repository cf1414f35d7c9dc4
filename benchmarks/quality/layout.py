"""Draws a document as a PDF with a text layer, and returns the lines of each page in reading order."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import UTC, datetime

from fpdf import FPDF

from benchmarks.quality.documents import Block, Document, Fields, Heading, Paragraph, Table

_MADE_AT = datetime(2025, 1, 1, tzinfo=UTC)
#: sizes in points
_WIDTH, _HEIGHT, _MARGIN, _GAP = 595.0, 842.0, 56.0, 26.0
FONTS = ("Helvetica", "Times", "Courier")


@dataclass
class Drawn:
    pdf: bytes
    #: lines of each page in reading order
    pages: list[list[str]]
    #: page of each block, from 1
    block_pages: list[int]


def draw(document: Document, seed: str) -> Drawn:
    """Draws the document. The seed decides font, size and rules."""
    return _Sheet(document, random.Random(f"{seed}:{document.name}:layout")).draw()


@dataclass
class _Sheet:
    document: Document
    chance: random.Random
    pages: list[list[str]] = field(default_factory=list)
    block_pages: list[int] = field(default_factory=list)

    def draw(self) -> Drawn:
        self.font = self.chance.choice(FONTS)
        self.size = self.chance.choice([10.0, 11.0, 12.0]) - (1.0 if self.font == "Courier" else 0.0)
        self.ruled = self.chance.random() < 0.5
        self.columns = self.document.columns
        self.column_width = (_WIDTH - 2 * _MARGIN - (self.columns - 1) * _GAP) / self.columns
        self.pdf = FPDF(unit="pt", format=(_WIDTH, _HEIGHT))
        self.pdf.set_creation_date(_MADE_AT)
        self.pdf.set_auto_page_break(False)
        self._new_page()
        self._title()
        for place, block in enumerate(self.document.blocks):
            after = self.document.blocks[place + 1] if place + 1 < len(self.document.blocks) else None
            self._room_for(block, after if isinstance(block, Heading) else None)
            self._block(block)
            self.block_pages.append(len(self.pages))
        return Drawn(bytes(self.pdf.output()), self.pages, self.block_pages)

    def _new_page(self) -> None:
        self.pdf.add_page()
        self.pages.append([])
        self.column, self.top = 0, _MARGIN
        self.y = self.top

    def _title(self) -> None:
        self._use(bold=True, larger=6.0)
        self.y += self.pdf.font_size
        self._write(_MARGIN, self.document.title)
        self.pages[-1].append(self.document.title)
        self.y += 18.0
        self.top = self.y

    def _use(self, *, bold: bool = False, larger: float = 0.0) -> None:
        self.pdf.set_font(self.font, "B" if bold else "", self.size + larger)

    def _write(self, x: float, text: str) -> None:
        self.pdf.text(x, self.y, text)

    @property
    def _line(self) -> float:
        return self.size * 1.35

    @property
    def _left(self) -> float:
        return _MARGIN + self.column * (self.column_width + _GAP)

    def _room_for(self, block: Block, after: Block | None) -> None:
        """Goes to the next column or page if the block, and what must follow it, does not fit."""
        needed = self._height(block) + (self._height(after) if after else 0.0)
        if self.y + needed <= _HEIGHT - _MARGIN:
            return
        if self.column + 1 < self.columns:
            self.column += 1
            self.y = self.top
        else:
            self._new_page()

    def _height(self, block: Block) -> float:
        match block:
            case Heading():
                return self._line * 1.6
            case Paragraph(text):
                return self._line * (len(self._wrap(text)) + 0.8)
            case Table(rows=rows):
                return self._line * 1.35 * (len(rows) + 2)
            case Fields(pairs, across):
                return self._line * 1.4 * (-(-len(pairs) // across) + 1)

    def _block(self, block: Block) -> None:
        match block:
            case Heading(text):
                self.y += self._line * 0.3
                self._use(bold=True, larger=1.0)
                self.y += self._line
                self._write(self._left, text)
                self.pages[-1].append(text)
                self.y += self._line * 0.3
            case Paragraph(text):
                lines = self._wrap(text)
                for line in lines:
                    self.y += self._line
                    self._write(self._left, line)
                self.pages[-1] += lines
                self.y += self._line * 0.8
            case Table():
                self._table(block)
            case Fields():
                self._fields(block)

    def _wrap(self, text: str) -> list[str]:
        self._use()
        lines: list[str] = []
        line = ""
        for word in text.split():
            longer = f"{line} {word}".strip()
            if line and self.pdf.get_string_width(longer) > self.column_width:
                lines.append(line)
                line = word
            else:
                line = longer
        return [*lines, line]

    def _table(self, table: Table) -> None:
        rows = [table.columns, *table.rows]
        step = self._line * 1.35
        self._use(bold=True)
        widths = [max(self.pdf.get_string_width(row[column]) for row in rows) for column in range(len(table.columns))]
        gap = min(60.0, (self.column_width - sum(widths)) / (len(widths) - 1))
        squeeze = 1.0
        if gap < 12.0:
            squeeze = (self.column_width - 12.0 * (len(widths) - 1)) / sum(widths)
            gap, widths = 12.0, [width * squeeze for width in widths]
        for number, row in enumerate(rows):
            self.pdf.set_font(self.font, "B" if number == 0 else "", self.size * squeeze)
            self.y += step
            x = self._left
            for cell, width in zip(row, widths, strict=True):
                self._write(x, cell)
                x += width + gap
            if self.ruled or number == 0:
                self.pdf.line(self._left, self.y + step * 0.3, x - gap, self.y + step * 0.3)
            self.pages[-1].append(" ".join(row))
        self.y += step

    def _fields(self, fields: Fields) -> None:
        width = self.column_width / fields.across
        step = self._line * 1.4
        for start in range(0, len(fields.pairs), fields.across):
            row = fields.pairs[start : start + fields.across]
            self.y += step
            for place, (label, value) in enumerate(row):
                self._use(bold=True)
                x = self._left + place * width
                self._write(x, f"{label}:")
                label_width = self.pdf.get_string_width(f"{label}: ")
                self._use()
                if fields.across == 1:
                    x += max(150.0, label_width + 6.0)
                else:
                    x += label_width
                    fits = (width - label_width - 8.0) / self.pdf.get_string_width(value)
                    self.pdf.set_font(self.font, "", self.size * min(1.0, fits))
                self._write(x, value)
            self.pages[-1].append(" ".join(f"{label}: {value}" for label, value in row))
        self.y += step
