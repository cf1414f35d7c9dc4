"""The OCR step: `ocr/text.json` (pages, lines, confidence, boxes) and `ocr/output.txt` from a PDF or an image."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Annotated, Any

from PIL import Image
from pydantic import BaseModel, ConfigDict, Field

from lucius_service.errors import INPUT_TYPE_UNSUPPORTED, NO_TEXT_FOUND, FailedFinal
from lucius_service.step import Outcome, Task, read_payload
from platform_service.ocr.page_text import Line, Page, text_document
from platform_service.ocr.pages import read_image, read_pdf
from platform_service.ocr.recogniser import Recogniser
from platform_service.settings import read_ocr_threads

_IMAGES = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"II*\x00", b"MM\x00*")
#: readers accept a PDF whose header is within its first 1024 bytes (ISO 32000, annex on implementation limits)
PDF_HEADER_WITHIN = 1024


class OcrPayload(BaseModel):
    """As `protocols/steps/ocr.schema.json` describes it."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    force_ocr: bool = False
    dpi: Annotated[int, Field(ge=72, le=400)] = 150
    min_confidence: Annotated[float, Field(ge=0, le=1)] = 0.5
    max_pages: Annotated[int, Field(ge=1, le=2000)] = 500


class OcrStep:
    """Reads the text layer where a page has one, and recognises the page where it has none."""

    step_type = "OCR"
    # pdfium cannot be interrupted, and a small document may keep it busy for years
    isolation = "process"
    #: a page is reported when it is read; one takes a second or two
    silent_s = 120.0

    def __init__(self, *, threads: int = 1) -> None:
        self._recogniser = Recogniser(threads)

    def prepare(self) -> None:
        self._recogniser.load()

    def validate(self, payload: Any) -> OcrPayload:
        return read_payload(OcrPayload, payload)

    def execute(self, task: Task) -> Outcome:
        source = task.read_input()
        pages = []
        for count, page in self._pages(source.data, task.payload):
            pages.append(page)
            task.report(len(pages) / count, f"page {len(pages)} of {count}")
        if not any(page.lines for page in pages):
            raise FailedFinal(NO_TEXT_FOUND, f"no text was found on the {len(pages)} page(s) of {source.name}")
        text = text_document(source.uri, pages)
        # a form feed between pages, as text tools expect
        plain = "\f".join(page.text for page in pages) + "\n"
        task.write("ocr/output.txt", plain.encode(), "text/plain; charset=utf-8")
        body = json.dumps(text, ensure_ascii=False).encode()
        return Outcome(
            task.write("ocr/text.json", body, "application/json"),
            {
                "pages": len(pages),
                "pages_recognised": sum(page.source == "ocr" for page in pages),
                "characters": len(plain),
                "mean_confidence": text["mean_confidence"],
            },
        )

    def _pages(self, data: bytes, payload: OcrPayload) -> Iterator[tuple[int, Page]]:
        recognise = partial(self._recognise, payload.min_confidence)
        if b"%PDF-" in data[:PDF_HEADER_WITHIN]:
            return read_pdf(data, recognise, dpi=payload.dpi, force_ocr=payload.force_ocr, max_pages=payload.max_pages)
        if data.startswith(_IMAGES):
            return read_image(data, recognise, max_pages=payload.max_pages)
        raise FailedFinal(INPUT_TYPE_UNSUPPORTED, "the input is not a PDF, PNG, JPEG or TIFF")

    def _recognise(self, min_confidence: float, image: Image.Image) -> tuple[Line, ...]:
        return self._recogniser.lines(image, min_confidence)


def build(environ: Mapping[str, str]) -> OcrStep:
    """The service's step, from its settings. Raises SettingsError."""
    return OcrStep(threads=read_ocr_threads(environ))
