"""The OCR step: `ocr/text.json` (pages, lines, confidence, boxes) and `ocr/output.txt` from a PDF or an image."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Annotated, Any

from PIL import Image
from pydantic import BaseModel, ConfigDict, Field

from lucius_service.errors import INPUT_TYPE_UNSUPPORTED, NO_TEXT_FOUND, FailedFinal
from lucius_service.step import Outcome, Task, read_payload
from platform_service.ocr.page_text import Line, Page, text_document
from platform_service.ocr.pages import MAX_PIXELS, Picture, read_image, read_pdf
from platform_service.ocr.recogniser import Recogniser
from platform_service.settings import read_ocr_threads

_IMAGES = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"II*\x00", b"MM\x00*")
#: readers accept a PDF whose header is within its first 1024 bytes (ISO 32000, annex on implementation limits)
PDF_HEADER_WITHIN = 1024


class OcrPayload(BaseModel):
    """The payload, as in `protocols/steps/ocr.schema.json`."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    force_ocr: bool = False
    # character errors of six scans of 150 dpi are 0.4 to 0.6 % with 75, 150 and 300 dpi. They are 0.6 % with a
    # confidence of 0, 0.25, 0.5 and 0.75 (2026-11-28, commit 300eef6)
    dpi: Annotated[int, Field(ge=72, le=400)] = 150
    min_confidence: Annotated[float, Field(ge=0, le=1)] = 0.5
    # a limit, not tuning
    max_pages: Annotated[int, Field(ge=1, le=2000)] = 500


class OcrStep:
    """The OCR step, which reads the text layers of PDF pages. The step recognises images, PDF pages whose text layer
    has too few letters and digits, and with `force_ocr` all PDF pages.
    """

    step_type = "OCR"
    result_name = "ocr/text.json"
    # pdfium cannot be interrupted, and a small document may keep it busy for years
    isolation = "process"
    #: a page is reported when it is read; one takes a second or two
    silent_s = 120.0

    def __init__(self, *, threads: int = 1) -> None:
        self._threads = threads
        self._recogniser = Recogniser()

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
            task.write(self.result_name, body, "application/json"),
            {
                "pages": len(pages),
                "pages_recognised": sum(page.source == "ocr" for page in pages),
                "characters": len(plain),
                "mean_confidence": text["mean_confidence"],
            },
        )

    def _pages(self, data: bytes, payload: OcrPayload) -> Iterator[tuple[int, Page]]:
        pages: Iterator[tuple[int, Page | Picture]]
        if b"%PDF-" in data[:PDF_HEADER_WITHIN]:
            pages = read_pdf(data, dpi=payload.dpi, force_ocr=payload.force_ocr, max_pages=payload.max_pages)
        elif data.startswith(_IMAGES):
            pages = read_image(data, max_pages=payload.max_pages)
        else:
            raise FailedFinal(INPUT_TYPE_UNSUPPORTED, "the input is not a PDF, PNG, JPEG or TIFF")
        return recognised(pages, lambda image: self._recogniser.lines(image, payload.min_confidence), self._threads)


def recognised(
    pages: Iterator[tuple[int, Page | Picture]], recognise: Callable[[Image.Image], tuple[Line, ...]], threads: int
) -> Iterator[tuple[int, Page]]:
    """Yields the pages in their order. Recognises up to `threads` pictures concurrently, or fewer large pictures.

    At most MAX_PIXELS of waiting pictures are in memory, besides the picture that was read last.
    """
    running: deque[tuple[int, int, Future[Page]]] = deque()
    with ThreadPoolExecutor(threads) as pool:

        def read(page: Page | Picture) -> Page:
            return page if isinstance(page, Page) else page.page(recognise(page.image))

        def next_page() -> tuple[int, Page]:
            count, _, page = running.popleft()
            return count, page.result()

        try:
            for count, page in pages:
                pixels = page.image.width * page.image.height if isinstance(page, Picture) else 0
                while running and (
                    len(running) >= threads or sum(each for _, each, _ in running) + pixels > MAX_PIXELS
                ):
                    yield next_page()
                running.append((count, pixels, pool.submit(read, page)))
            while running:
                yield next_page()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def build(environ: Mapping[str, str]) -> OcrStep:
    """Returns the service's step, from its settings. Raises SettingsError."""
    return OcrStep(threads=read_ocr_threads(environ))
