"""Pages of a PDF or an image file, for the recogniser. Callers must read in one thread of a process at a time.

The text of a PDF page comes from its text layer. A PDF page is rendered if its text layer has fewer than `MIN_LETTERS`
letters and digits, or if the caller requests recognition. Each frame of an image file is a page.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from typing import cast

import pypdfium2
import pypdfium2.raw as pdfium
from PIL import Image, ImageOps, UnidentifiedImageError

from lucius_service.errors import IMAGE_BROKEN, INPUT_TOO_LARGE, PDF_BROKEN, PDF_ENCRYPTED, FailedFinal
from platform_service.ocr.layout import Run, reading_order, row_text
from platform_service.ocr.page_text import Box, Line, Page

#: A page with fewer letters and digits in its text layer is recognised as an image. Many scanners add a page number or
#: a stamp as text. With 0 a stamp counts as the page (tests/platform_service/test_ocr.py); 10 and 40 change nothing.
MIN_LETTERS = 20
POINTS_PER_INCH = 72
#: share of a character's height: a wider gap in a text layer is between cells or columns (decision 63)
LAYER_GAP = 1.1
#: limit, not tuning: longest side of a rendered page, which takes up to 108 MB as RGB
MAX_SIDE_PX = 6000
#: limit, not tuning: maximum pixels of one page of an image file, 192 MB as RGB; an A3 page at 400 dpi has 31 million
MAX_PIXELS = 64_000_000


@dataclass(frozen=True)
class Picture:
    """A page that is not recognised yet."""

    image: Image.Image
    #: the page with the lines that were recognised, whose boxes are in pixels of the image
    page: Callable[[tuple[Line, ...]], Page]


def read_pdf(data: bytes, *, dpi: int, force_ocr: bool, max_pages: int) -> Iterator[tuple[int, Page | Picture]]:
    """Yields (number of pages, page or its picture). Raises FailedFinal for a PDF that cannot be read or has more than
    `max_pages` pages.
    """
    document = _open(data)
    try:
        count = len(document)
        if not count:
            raise FailedFinal(PDF_BROKEN, "the PDF has no pages")
        if count > max_pages:
            raise FailedFinal(INPUT_TOO_LARGE, f"the PDF has {count} pages; max_pages is {max_pages}")
        for index in range(count):
            yield count, _page(document, index, dpi, force_ocr)
    finally:
        document.close()


def _open(data: bytes) -> pypdfium2.PdfDocument:
    try:
        return pypdfium2.PdfDocument(data)
    except pypdfium2.PdfiumError as error:
        code = getattr(error, "err_code", None)
        if code in (pdfium.FPDF_ERR_PASSWORD, pdfium.FPDF_ERR_SECURITY) or "password" in str(error).lower():
            raise FailedFinal(PDF_ENCRYPTED, "the PDF is encrypted; send a PDF without a password") from None
        raise FailedFinal(PDF_BROKEN, "the PDF is damaged or cut off") from None


def _page(document: pypdfium2.PdfDocument, index: int, dpi: int, force_ocr: bool) -> Page | Picture:
    try:
        page = document[index]
        width, height = page.get_size()
        layer = () if force_ocr else _text_layer(page, height)
        letters = sum(character.isalnum() for line in layer for character in line.text)
        if letters >= MIN_LETTERS:
            return Page(index + 1, width, height, "point", "text_layer", layer)
        scale = min(dpi / POINTS_PER_INCH, MAX_SIDE_PX / max(width, height, 1))
        image = page.render(scale=scale).to_pil()
    except pypdfium2.PdfiumError:
        raise FailedFinal(PDF_BROKEN, f"page {index + 1} of the PDF cannot be read") from None

    def recognised(lines: tuple[Line, ...]) -> Page:
        if not lines and layer:
            return Page(index + 1, width, height, "point", "text_layer", layer)
        in_points = tuple(Line(line.text, line.confidence, _scaled(line.box, 1 / scale)) for line in lines)
        return Page(index + 1, width, height, "point", "ocr", in_points)

    return Picture(image, recognised)


def _scaled(box: Box, factor: float) -> Box:
    left, top, right, bottom = box
    return left * factor, top * factor, right * factor, bottom * factor


def _text_layer(page: pypdfium2.PdfPage, height: float) -> tuple[Line, ...]:
    """Returns the lines in reading order, each with the box around its characters."""
    runs = _text_runs(page, height)
    # pdfium gives the boxes of a turned page as if it were upright: what the author wrote first is read first there
    upwards = sum(run.height > run.right - run.left for run in runs if len(run.text) > 2)
    if page.get_rotation() or upwards > len(runs) / 2:
        return tuple(Line(run.text, 1.0, run.source) for run in runs)
    return tuple(_layer_line(row) for row in reading_order(runs))


def _layer_line(row: Sequence[Run[Box]]) -> Line:
    lefts, tops, rights, bottoms = zip(*(run.source for run in row), strict=True)
    return Line(row_text(row), 1.0, (min(lefts), min(tops), max(rights), max(bottoms)))


def _text_runs(page: pypdfium2.PdfPage, height: float) -> list[Run[Box]]:
    """Returns runs of text as pdfium orders them. A line break or a wide gap separates two runs."""
    text = page.get_textpage()
    runs: list[Run[Box]] = []
    letters: list[str] = []
    box: list[float] | None = None
    loose_box: list[float] = []

    def end_run() -> None:
        nonlocal letters, box
        # beyond the basic plane pdfium may give a character as two halves of UTF-16
        words = "".join(letters).encode("utf-16", "surrogatepass").decode("utf-16", "replace").strip()
        if words and box:
            around = (box[0], height - box[3], box[2], height - box[1])
            runs.append(Run(words, box[0], height - loose_box[3], box[2], height - loose_box[1], around))
        letters, box = [], None

    for index in range(text.count_chars()):
        code = pdfium.FPDFText_GetUnicode(text, index)
        if code in (10, 13):
            end_run()
            continue
        # pdfium gives 2 for the hyphen of a word that it knows to be broken at the line's end
        letter = "-" if code == 2 else chr(code) if 0x20 <= code <= 0x10FFFF else ""
        here = _char_box(text, index)
        if here[2] > here[0]:
            loose = _char_box(text, index, loose=True)
            if box and here[0] - box[2] > LAYER_GAP * (loose[3] - loose[1]):
                end_run()
            loose_box = list(loose) if box is None else _around(loose_box, loose)
            box = list(here) if box is None else _around(box, here)
        letters.append(letter)
    end_run()
    text.close()
    return runs


def _char_box(text: pypdfium2.PdfTextPage, index: int, *, loose: bool = False) -> Box:
    """Returns left, bottom, right and top of a character, or zeros if the character has no position."""
    try:
        return cast("Box", text.get_charbox(index, loose=loose))
    except pypdfium2.PdfiumError:
        return 0.0, 0.0, 0.0, 0.0


def _around(box: list[float], other: Sequence[float]) -> list[float]:
    return [*map(min, box[:2], other[:2]), *map(max, box[2:], other[2:])]


def read_image(data: bytes, *, max_pages: int) -> Iterator[tuple[int, Picture]]:
    """Yields (number of pages, picture of a page). Raises FailedFinal for an image that cannot be read, has more than
    `max_pages` pages, or has a page of more than MAX_PIXELS.
    """
    try:
        with Image.open(BytesIO(data), formats=("PNG", "JPEG", "TIFF")) as image:
            count = getattr(image, "n_frames", 1)
            if count > max_pages:
                raise FailedFinal(INPUT_TOO_LARGE, f"the image has {count} pages; max_pages is {max_pages}")
            for index in range(count):
                image.seek(index)
                if image.width * image.height > MAX_PIXELS:
                    raise FailedFinal(
                        INPUT_TOO_LARGE,
                        f"page {index + 1} has {image.width} x {image.height} pixels; the maximum is {MAX_PIXELS}",
                    )
                picture = _upright_on_white(image)
                yield count, Picture(picture, partial(Page, index + 1, picture.width, picture.height, "pixel", "ocr"))
    except Image.DecompressionBombError:
        raise FailedFinal(INPUT_TOO_LARGE, f"a page has more than {MAX_PIXELS} pixels") from None
    except (UnidentifiedImageError, OSError, SyntaxError, ValueError, EOFError):
        raise FailedFinal(IMAGE_BROKEN, "the image is damaged or cut off") from None


def _upright_on_white(image: Image.Image) -> Image.Image:
    """Turns the image by its EXIF orientation, and puts the image on white, since transparent parts turn black
    otherwise.
    """
    upright = ImageOps.exif_transpose(image)
    if upright.mode in ("RGBA", "LA", "PA") or "transparency" in upright.info:
        layered = upright.convert("RGBA")
        white = Image.new("RGBA", layered.size, "white")
        return Image.alpha_composite(white, layered).convert("RGB")
    return upright.convert("RGB")
