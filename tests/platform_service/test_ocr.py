"""OCR of readable and of broken files."""

from __future__ import annotations

import struct
import threading
import zlib
from functools import partial
from io import BytesIO
from pathlib import Path

import pypdfium2
import pytest
from fpdf import FPDF
from PIL import Image, ImageDraw, ImageFont

from lucius_service.errors import FailedFinal
from platform_service.ocr.page_text import Line, Page
from platform_service.ocr.pages import MAX_PIXELS, Picture
from platform_service.ocr.step import OcrStep, recognised
from tests.lucius_service.service_process import ROOT
from tests.lucius_service.step_runner import StepRunner
from tests.platform_service.hostile_pdf import circular_pdf, large_image_pdf, many_pages_pdf

MANUAL = (ROOT / "samples" / "bw40-manual.pdf").read_bytes()
SCAN = (ROOT / "samples" / "minutes-scan.pdf").read_bytes()


def picture(*lines: str, angle: float = 0.0, size: tuple[int, int] = (900, 400)) -> Image.Image:
    page = Image.new("RGB", size, "white")
    draw = ImageDraw.Draw(page)
    for number, line in enumerate(lines):
        draw.text((60, 60 + 80 * number), line, font=ImageFont.load_default(size=36), fill="black")
    return page.rotate(angle, resample=Image.Resampling.BICUBIC, fillcolor="white")


def encoded(image: Image.Image, form: str, **options: object) -> bytes:
    out = BytesIO()
    image.save(out, form, **options)
    return out.getvalue()


def pdf_of(*pages: str, password: str = "") -> bytes:
    pdf = FPDF()
    for text in pages:
        pdf.add_page()
        pdf.set_font("Helvetica", size=14)
        pdf.multi_cell(0, 8, text)
    if password:
        pdf.set_encryption(owner_password="owner", user_password=password)
    return bytes(pdf.output())


def test_a_text_layer_is_read_as_it_is(runner: StepRunner, ocr: OcrStep) -> None:
    """Pages with a text layer are not recognised: confidence 1, boxes within the page, and one plain text file."""
    run = runner.run(ocr, MANUAL)
    pages = run.result["pages"]
    assert [(page["page"], page["source"]) for page in pages] == [
        (1, "text_layer"),
        (2, "text_layer"),
        (3, "text_layer"),
        (4, "text_layer"),
    ]
    assert run.result["mean_confidence"] == 1.0
    assert "72.5 degrees Celsius" in pages[1]["text"]
    for page in pages:
        assert page["text"] == "\n".join(line["text"] for line in page["lines"])
        for line in page["lines"]:
            left, top, right, bottom = line["box"]
            assert 0 <= left < right <= page["width"]
            assert 0 <= top < bottom <= page["height"]
    tops = [line["box"][1] for line in pages[0]["lines"]]
    assert tops == sorted(tops), "from top to bottom"
    plain = runner.artefact(run, "output.txt").decode()
    assert [page["text"] for page in pages] == plain.rstrip("\n").split("\f")


def test_a_scanned_page_is_recognised(runner: StepRunner, ocr: OcrStep) -> None:
    """A slanted, noisy scan without a text layer gives its lines in order, with confidence and boxes in points."""
    run = runner.run(ocr, SCAN)
    (page,) = run.result["pages"]
    assert (page["source"], page["unit"]) == ("ocr", "point")
    assert 0.9 < page["mean_confidence"] < 1.0
    assert (
        page["text"].index("Margaret Ellison") < page["text"].index("3,275 euros") < page["text"].index("Joanna Pike")
    )
    assert all(0 <= line["box"][0] < line["box"][2] <= page["width"] for line in page["lines"])
    assert (run.outcome.metrics["pages"], run.outcome.metrics["pages_recognised"]) == (1, 1)
    assert run.reports[-1] == (1.0, "page 1 of 1")


def test_force_ocr_recognises_pages_that_have_text(runner: StepRunner, ocr: OcrStep) -> None:
    """With force_ocr the text layer is ignored, and recognition gives the same text."""
    run = runner.run(ocr, pdf_of("The quick brown fox jumps over the lazy dog."), {"force_ocr": True})
    (page,) = run.result["pages"]
    assert (page["source"], page["text"]) == ("ocr", "The quick brown fox jumps over the lazy dog.")


@pytest.mark.parametrize(
    ("form", "options"), [("PNG", {}), ("JPEG", {"quality": 80}), ("TIFF", {"compression": "tiff_lzw"})]
)
def test_images_are_recognised(form: str, options: dict[str, object], runner: StepRunner, ocr: OcrStep) -> None:
    """PNG, JPEG and TIFF; boxes are in pixels."""
    run = runner.run(ocr, encoded(picture("Invoice number 4711"), form, **options))
    (page,) = run.result["pages"]
    assert (page["unit"], page["width"], page["height"]) == ("pixel", 900, 400)
    assert "4711" in page["text"]


def test_a_tiff_may_have_pages(runner: StepRunner, ocr: OcrStep) -> None:
    """Each image of a TIFF is one page."""
    second = picture("Second page")
    run = runner.run(
        ocr, encoded(picture("First page"), "TIFF", compression="tiff_lzw", save_all=True, append_images=[second])
    )
    assert [page["text"].split()[0] for page in run.result["pages"]] == ["First", "Second"]


@pytest.mark.parametrize("angle", [-3.0, 3.0])
def test_rows_of_a_slanted_table_stay_rows(angle: float, runner: StepRunner, ocr: OcrStep) -> None:
    """On a slanted page the cells of a row are grouped by the slant of the page, not by their height alone."""
    page = Image.new("RGB", (1400, 500), "white")
    draw = ImageDraw.Draw(page)
    font = ImageFont.load_default(size=34)
    draw.text((80, 60), "The following amounts are due by the end of the month", font=font, fill="black")
    for number, (name, amount) in enumerate((("Rent", "850.00"), ("Heating", "120.00"), ("Garage", "65.00"))):
        draw.text((80, 150 + 70 * number), name, font=font, fill="black")
        draw.text((1150, 150 + 70 * number), amount, font=font, fill="black")
    page = page.rotate(angle, resample=Image.Resampling.BICUBIC, fillcolor="white", expand=True)
    lines = runner.run(ocr, encoded(page, "PNG")).result["pages"][0]["text"].split("\n")
    assert lines[1:] == ["Rent | 850.00", "Heating | 120.00", "Garage | 65.00"]


@pytest.mark.parametrize("turns", [1, 2, 3])
def test_a_turned_page_is_read_and_its_boxes_stay(turns: int, runner: StepRunner, ocr: OcrStep) -> None:
    """A page on its side or upside down has the text of the upright one, and boxes where the ink is."""
    words = ["Harbour repairs begin in May", "Budget: 4711 euros"]
    page = picture(*words, size=(640, 240)).rotate(90 * turns, expand=True)
    (found,) = runner.run(ocr, encoded(page, "PNG")).result["pages"]
    assert found["text"].split("\n") == words
    for line in found["lines"]:
        left, top, right, bottom = line["box"]
        assert (bottom - top > right - left) == (turns != 2)
        inside = page.crop((round(left), round(top), round(right), round(bottom)))
        assert min(inside.convert("L").getextrema()) < 100, "ink"


def test_columns_of_a_text_layer_are_read_in_order(runner: StepRunner, ocr: OcrStep) -> None:
    """Also where the author wrote line by line across both columns; a table stays in rows."""
    pdf = FPDF(unit="pt")
    pdf.add_page()
    pdf.set_font("Helvetica", size=10)
    columns = [[f"This is line {n} of the {side} column here" for n in range(6)] for side in ("left", "right")]
    for number, lines in enumerate(zip(*columns, strict=True)):
        for left, line in zip((50, 320), lines, strict=True):
            pdf.text(left, 100 + 14 * number, line)
    for number, cells in enumerate((("Part", "Price"), ("Pump", "12.50"), ("Hose", "4.00"))):
        for left, cell in zip((50, 320), cells, strict=True):
            pdf.text(left, 300 + 14 * number, cell)
    text = runner.run(ocr, bytes(pdf.output())).result["pages"][0]["text"].split("\n")
    assert text == [*columns[0], *columns[1], "Part | Price", "Pump | 12.50", "Hose | 4.00"]


@pytest.mark.parametrize("threads", [1, 3])
def test_pages_are_recognised_at_once_within_a_bound(threads: int) -> None:
    """At most `threads` pictures, together of at most MAX_PIXELS pixels; pages keep their order."""
    side = 6000  # two of them exceed the bound, and a small one fits beside one of them
    sizes = [(10, 10), (side, side), (10, 10), (side, side), (10, 10), (10, 10)]
    running: list[int] = []
    most = [0, 0]
    lock = threading.Lock()

    def recognise(image: Image.Image) -> tuple[Line, ...]:
        with lock:
            running.append(image.width * image.height)
            most[:] = max(most[0], len(running)), max(most[1], sum(running))
        met.wait(5)
        with lock:
            running.remove(image.width * image.height)
        return ()

    met = threading.Event()
    pages = (
        (len(sizes), Picture(Image.new("1", size), partial(Page, number, *size, "pixel", "ocr")))
        for number, size in enumerate(sizes, 1)
    )
    threading.Timer(0.2, met.set).start()
    found = list(recognised(pages, recognise, threads))
    assert [page.number for _, page in found] == [1, 2, 3, 4, 5, 6]
    assert most[0] == threads
    assert most[1] <= MAX_PIXELS


def test_a_page_that_fails_ends_the_document(ocr: OcrStep) -> None:
    """Its error is that of the attempt, and pages behind it are not recognised."""
    seen = []

    def recognise(image: Image.Image) -> tuple[Line, ...]:
        seen.append(image.width)
        raise FailedFinal("IMAGE_BROKEN", "page 1")

    pages = ((9, Picture(Image.new("1", (n, 1)), partial(Page, n, n, 1, "pixel", "ocr"))) for n in range(1, 10))
    with pytest.raises(FailedFinal, match="page 1"):
        list(recognised(pages, recognise, 1))
    assert len(seen) <= 2


def test_transparency_is_white_paper(runner: StepRunner, ocr: OcrStep) -> None:
    """Black text on a transparent background is recognised."""
    page = Image.new("RGBA", (700, 200), (0, 0, 0, 0))
    ImageDraw.Draw(page).text((50, 60), "Transparent notice", font=ImageFont.load_default(size=40), fill=(0, 0, 0, 255))
    assert "Transparent notice" in runner.run(ocr, encoded(page, "PNG")).result["pages"][0]["text"]


def test_a_skewed_table_of_short_cells_has_its_rows(runner: StepRunner, ocr: OcrStep) -> None:
    """Two lines of prose give the angle, for which short cells are too short."""
    page = Image.new("RGB", (1300, 460), "white")
    draw, font = ImageDraw.Draw(page), ImageFont.load_default(size=28)
    for row in range(2):
        draw.text(
            (80, 40 + 50 * row), "The contractor keeps all service reports for ten years", font=font, fill="black"
        )
    for row in range(6):
        for column in range(6):
            draw.text((80 + 210 * column, 160 + 44 * row), f"{row + 1}{column + 2}", font=font, fill="black")
    skewed = page.rotate(2, resample=Image.Resampling.BICUBIC, fillcolor="white", expand=True)
    text = runner.run(ocr, encoded(skewed, "PNG")).result["pages"][0]["text"]
    assert [line for line in text.splitlines() if "|" in line] == [
        " | ".join(f"{row + 1}{column + 2}" for column in range(6)) for row in range(6)
    ]


def test_an_empty_page_among_others_is_kept(runner: StepRunner, ocr: OcrStep) -> None:
    """A page without text is kept, so that page numbers stay correct."""
    run = runner.run(ocr, pdf_of("The first page has this text on it.", "", "The third page has this text on it."))
    assert [bool(page["text"]) for page in run.result["pages"]] == [True, False, True]
    assert "third" in run.result["pages"][2]["text"]


def png_of_side(pixels: int) -> bytes:
    """Returns a small PNG whose header states a square with this side."""
    whole = encoded(picture("Large"), "PNG")
    header = b"IHDR" + struct.pack(">II", pixels, pixels) + whole[24:29]
    return whole[:12] + header + struct.pack(">I", zlib.crc32(header)) + whole[33:]


def broken_inputs() -> list[tuple[str, bytes, str]]:
    whole = encoded(picture("Cut off"), "PNG")
    return [
        ("encrypted PDF", pdf_of("A secret", password="sesame"), "PDF_ENCRYPTED"),
        ("truncated PDF", MANUAL[:400], "PDF_BROKEN"),
        ("PDF header and noise", b"%PDF-1.7\n" + bytes(range(256)) * 8, "PDF_BROKEN"),
        ("blank PDF", pdf_of(""), "NO_TEXT_FOUND"),
        ("blank image", encoded(Image.new("L", (600, 400), 255), "PNG"), "NO_TEXT_FOUND"),
        ("truncated image", whole[: len(whole) // 2], "IMAGE_BROKEN"),
        ("image header and noise", b"\xff\xd8\xff" + bytes(500), "IMAGE_BROKEN"),
        ("an image of 81 million pixels", png_of_side(9_000), "INPUT_TOO_LARGE"),
        ("an image of 400 million pixels", png_of_side(20_000), "INPUT_TOO_LARGE"),
        ("a PDF of 10,000 pages", many_pages_pdf(10_000), "INPUT_TOO_LARGE"),
        ("a PDF that is its own child", circular_pdf(), "PDF_BROKEN"),
        ("a PDF with a blank picture of 81 million pixels", large_image_pdf(9_000), "NO_TEXT_FOUND"),
        ("a GIF", encoded(picture("GIF"), "GIF"), "INPUT_TYPE_UNSUPPORTED"),
        ("plain text", b"only words", "INPUT_TYPE_UNSUPPORTED"),
        ("nothing", b"", "INPUT_EMPTY"),
        ("too much", b"%PDF-" + bytes(2**20), "INPUT_TOO_LARGE"),
    ]


@pytest.mark.parametrize(("data", "code"), [pytest.param(data, code, id=name) for name, data, code in broken_inputs()])
def test_bad_input_fails_for_good_with_its_code(data: bytes, code: str, runner: StepRunner, ocr: OcrStep) -> None:
    """Each kind of bad input has its own code and a message of one line."""
    with pytest.raises(FailedFinal) as failed:
        runner.run(ocr, data)
    assert code == failed.value.code
    assert failed.value.message
    assert "\n" not in failed.value.message


def test_too_many_pages_are_refused(runner: StepRunner, ocr: OcrStep) -> None:
    """A PDF with more than max_pages pages is refused."""
    with pytest.raises(FailedFinal, match="INPUT_TOO_LARGE: the PDF has 4 pages; max_pages is 3"):
        runner.run(ocr, MANUAL, {"max_pages": 3})


def test_a_stamp_does_not_pass_for_a_text_layer(tmp_path: Path, runner: StepRunner, ocr: OcrStep) -> None:
    """A scanned page whose text layer has only a page number is recognised."""
    path = tmp_path / "scan.png"
    pypdfium2.PdfDocument(SCAN)[0].render(scale=2).to_pil().save(path)
    pdf = FPDF()
    pdf.set_auto_page_break(False)
    pdf.add_page()
    pdf.image(path, 0, 0, 210, 297)
    pdf.set_font("Helvetica", size=8)
    pdf.set_xy(180, 285)
    pdf.cell(0, 5, "Page 7")
    (page,) = runner.run(ocr, bytes(pdf.output())).result["pages"]
    assert page["source"] == "ocr"
    assert "Margaret Ellison" in page["text"]
