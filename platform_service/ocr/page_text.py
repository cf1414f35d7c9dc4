"""The text of one page, and the shape of `text.json`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

#: value of the document's `format`, by which a reader recognises it
FORMAT = "lucius.text/1"

#: left, top, right and bottom; the origin is at the top left
Box = tuple[float, float, float, float]


@dataclass(frozen=True)
class Line:
    """One line of text on a page."""

    text: str
    #: share from 0 to 1; 1: the text comes from a text layer
    confidence: float
    #: place of the line, in the page's unit
    box: Box


@dataclass(frozen=True)
class Page:
    """One page of a document, with its size, its lines and the source of its text."""

    #: page number, from 1
    number: int
    width: float
    height: float
    #: unit of width, height and boxes: points of 1/72 inch in a PDF, pixels in an image
    unit: Literal["point", "pixel"]
    source: Literal["text_layer", "ocr"]
    lines: tuple[Line, ...]

    @property
    def text(self) -> str:
        return "\n".join(line.text for line in self.lines)


def text_document(uri: str, pages: list[Page]) -> dict[str, Any]:
    """Returns `text.json` as an object. The mean confidence weights lines by their length. Without lines, the mean
    confidence is None.
    """
    return {
        "format": FORMAT,
        "input": {"uri": uri},
        "mean_confidence": mean_confidence([line for page in pages for line in page.lines]),
        "pages": [
            {
                "page": page.number,
                "source": page.source,
                "width": round(page.width, 1),
                "height": round(page.height, 1),
                "unit": page.unit,
                "mean_confidence": mean_confidence(list(page.lines)),
                "text": page.text,
                "lines": [
                    {
                        "text": line.text,
                        "confidence": round(line.confidence, 4),
                        "box": [round(edge, 1) for edge in line.box],
                    }
                    for line in page.lines
                ],
            }
            for page in pages
        ],
    }


def mean_confidence(lines: list[Line]) -> float | None:
    letters = sum(len(line.text) for line in lines)
    if not letters:
        return None
    return round(sum(line.confidence * len(line.text) for line in lines) / letters, 4)
