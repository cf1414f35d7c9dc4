"""Makes the sample documents again: `python samples/make_samples.py [FOLDER]`. The same versions of the libraries make
the same files.

Everything in them was made up for this project. The fonts are those that PDF readers have built in, and Pillow's own.
The result does not depend on the fonts of the machine.
"""

from __future__ import annotations

# ruff: noqa: E501 - the prose reads better in lines of its own width
import random
import sys
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path

import pypdfium2
from fpdf import FPDF
from fpdf.enums import XPos, YPos
from PIL import Image, ImageDraw, ImageFilter, ImageFont

MADE_AT = datetime(2025, 1, 1, tzinfo=UTC)
SEED = 20250101
SCAN_DPI = 150

MANUAL = [
    (
        "1. About this manual",
        [
            "This manual covers the operation, cleaning and maintenance of the Brightwater BW-40 compact pasteuriser, as "
            "delivered to small dairies and juice makers. It is written for operators who have completed the one-day "
            "induction course and for technicians who hold a certificate in pressure equipment. Keep it within reach "
            "of the machine, and hand it on if the machine is sold.",
            "The BW-40 heats a liquid to a chosen temperature, holds it there for a chosen time and cools it again in a "
            "plate heat exchanger. It processes up to 400 litres of milk per hour. Thicker products, such as cream or "
            "fruit purée, pass more slowly, and the throughput must then be lowered on the control panel before the "
            "product valve is opened.",
            "The rated supply is 400 volts, three phases, with a current of 32 amperes. The machine weighs 310 kilograms "
            "when empty and must stand on a level floor that can be hosed down.",
            "Warnings in this manual are of two kinds. A caution points to damage to the product or the machine; a "
            "danger points to injury. Neither replaces the rules of the site where the machine is installed.",
        ],
    ),
    (
        "2. Daily operation",
        [
            "Before the first batch of the day, check that the emergency stop is released, that the water inlet is open "
            "and that the printed chart recorder has paper. Switch the main isolator on and wait until the panel shows "
            "the word READY, which takes about ninety seconds.",
            "For whole milk, set the holding temperature to 72.5 degrees Celsius and the holding time to 15 seconds. The "
            "flow diversion valve sends any milk that is below the set temperature back to the balance tank, so that "
            "nothing under-heated reaches the filler. An operator must never wedge or bypass this valve.",
            "During production, write the inlet and outlet temperatures into the log sheet every thirty minutes. If the "
            "difference between them grows by more than three degrees within an hour, the plates are fouling and the "
            "batch should be finished and the machine cleaned.",
            "At the end of the shift, flush the machine with clean water for ten minutes, then leave it filled with "
            "water. Do not leave product standing in the plates overnight.",
        ],
    ),
    (
        "3. Cleaning in place",
        [
            "The machine is cleaned in place after every production day, and in any case after eight hours of running. "
            "The cleaning programme has four phases: a pre-rinse, a caustic wash, an acid wash and a final rinse.",
            "The caustic wash uses sodium hydroxide at a concentration of 1.5 percent and a temperature of 80 degrees "
            "Celsius for twenty minutes. The acid wash uses nitric acid at 0.8 percent and 60 degrees Celsius for "
            "fifteen minutes. Never mix the two chemicals, and never add either of them to hot water by hand.",
            "Wear goggles, an apron and gloves of nitrile rubber whenever the chemical cabinet is open. If caustic "
            "reaches the eyes, rinse them with running water for at least fifteen minutes and call a doctor.",
            "After the final rinse, test the rinse water with a strip of indicator paper. Production may begin only when "
            "the strip shows a value between 6.5 and 7.5.",
        ],
    ),
    (
        "4. Maintenance",
        [
            "The gaskets of the plate pack must be replaced every 2,000 operating hours, or once a year, whichever comes "
            "first. Use only gasket set BW-7731, since others swell in hot caustic. Tighten the frame bolts crosswise "
            "with a torque of 85 newton metres.",
            "The feed pump is greased once a month with the food-grade grease named on its plate. Two strokes of the "
            "grease gun are enough; more will press the seal out of its seat.",
            "The temperature probes are calibrated twice a year by an accredited laboratory. Keep the certificates for "
            "five years, because the inspector of the food authority may ask for them.",
            "Spare parts are ordered from the service desk of Brightwater Works in Halden. The desk is open on working "
            "days from 7:30 to 16:00. In an emergency outside these hours, the standby technician is Ingrid Solvang.",
            "The warranty runs for 24 months from the date of commissioning. It ends early if parts of another make have "
            "been fitted or if the cleaning log has gaps of more than three days.",
        ],
    ),
]

LETTER = [
    "Harbour Street Residents' Association",
    "Minutes of the annual meeting",
    "",
    "The meeting was held on 14 March 2024 in the reading room",
    "of the old customs house. Forty-one members were present.",
    "",
    "Margaret Ellison was elected as chairwoman for two years.",
    "The treasurer, Tobias Wren, reported a balance of 8,460 euros",
    "at the end of the year.",
    "",
    "The members agreed to repair the roof of the boat shed.",
    "The carpenter Lindqvist offered to do the work for 3,275 euros,",
    "and it must be finished before the first of September.",
    "",
    "The yearly membership fee rises from 45 to 52 euros.",
    "Members under the age of eighteen pay nothing.",
    "",
    "The summer festival will take place on the lower quay.",
    "Volunteers should write to the secretary, Joanna Pike.",
    "",
    "The meeting closed at half past nine in the evening.",
]

INVOICE_HEAD = ["Fernhill Bicycle Workshop", "12 Mill Lane, Oakbridge", "", "INVOICE"]
INVOICE_FACTS = [
    ("Invoice number:", "FB-2024-0173"),
    ("Invoice date:", "6 May 2024"),
    ("Customer:", "Oakbridge Public Library"),
    ("Payment due date:", "5 June 2024"),
]
INVOICE_LINES = [
    ("Description", "Quantity", "Amount"),
    ("Service of delivery bicycle", "2", "180.00"),
    ("New brake cables", "4", "38.00"),
    ("Puncture proof tyres", "4", "152.00"),
    ("Safety inspection", "2", "50.00"),
]
INVOICE_SUMS = [("Net amount:", "EUR 420.00"), ("VAT 19 percent:", "EUR 79.80"), ("Total amount due:", "EUR 499.80")]
INVOICE_FOOT = ["Please pay into account 4471 at Oakbridge Savings Bank.", "Questions? Ask for Harriet Dunmore."]


def manual_pdf() -> bytes:
    """Returns a PDF of four pages with a text layer."""
    pdf = FPDF(format="A4")
    pdf.set_creation_date(MADE_AT)
    pdf.set_title("Brightwater BW-40: operation and maintenance")
    pdf.set_margin(25)
    pdf.set_auto_page_break(auto=True, margin=15)
    for number, (heading, paragraphs) in enumerate(MANUAL, 1):
        pdf.add_page()
        if number == 1:
            pdf.set_font("Helvetica", "B", 18)
            pdf.multi_cell(0, 9, "Brightwater BW-40\nOperation and maintenance manual", align="L")
            pdf.ln(8)
        pdf.set_font("Helvetica", "B", 14)
        pdf.cell(0, 10, heading, new_x=XPos.LMARGIN, new_y=YPos.NEXT)
        for paragraph in paragraphs:
            pdf.set_font("Times", "", 12)
            pdf.multi_cell(0, 6, paragraph, align="L", new_x=XPos.LMARGIN, new_y=YPos.NEXT)
            pdf.ln(3)
        pdf.set_y(-25)
        pdf.set_font("Helvetica", "", 9)
        pdf.cell(0, 8, f"Page {number} of {len(MANUAL)}", align="C")
    return bytes(pdf.output())


def minutes_scan_pdf() -> bytes:
    """Returns a PDF of one scanned page: grey, skewed and speckled, without a text layer."""
    letter = FPDF(format="A4")
    letter.set_margin(25)
    letter.add_page()
    for number, line in enumerate(LETTER):
        letter.set_font("Times", "B" if number < 2 else "", 17 if number < 2 else 14)
        letter.cell(0, 9, line, new_x=XPos.LMARGIN, new_y=YPos.NEXT)
    page = pypdfium2.PdfDocument(bytes(letter.output()))[0].render(scale=SCAN_DPI / 72).to_pil().convert("L")
    page = page.point(lambda light: 35 + light * 215 // 255)  # toner is not black, and paper is not white
    page = page.rotate(1.4, resample=Image.Resampling.BICUBIC, fillcolor=250).filter(ImageFilter.GaussianBlur(0.7))
    chance = random.Random(SEED)
    pixels = page.load()
    assert pixels is not None
    for _ in range(5000):
        pixels[chance.randrange(page.width), chance.randrange(page.height)] = chance.randrange(90, 230)
    picture = BytesIO()
    page.save(picture, "JPEG", quality=55)
    pdf = FPDF(format="A4")
    pdf.set_creation_date(MADE_AT)
    pdf.set_title("Minutes (scanned)")
    pdf.set_margin(0)
    pdf.add_page()
    pdf.image(picture, 0, 0, 210, 297)
    return bytes(pdf.output())


def invoice_png() -> bytes:
    """Returns a picture of an invoice, with a table."""
    page = Image.new("L", (1000, 1300), 255)
    draw = ImageDraw.Draw(page)
    font, bold = ImageFont.load_default(size=26), ImageFont.load_default(size=38)
    y = 80
    for line in INVOICE_HEAD:
        draw.text((80, y), line, font=bold if line in (INVOICE_HEAD[0], INVOICE_HEAD[-1]) else font, fill=0)
        y += 52
    for name, value in INVOICE_FACTS:
        draw.text((80, y), name, font=font, fill=0)
        draw.text((380, y), value, font=font, fill=0)
        y += 46
    y += 40
    for what, quantity, amount in INVOICE_LINES:
        draw.text((80, y), what, font=font, fill=0)
        draw.text((560, y), quantity, font=font, fill=0)
        draw.text((900, y), amount, font=font, fill=0, anchor="ra")
        draw.line((80, y + 42, 900, y + 42), fill=170)
        y += 60
    y += 20
    for name, value in INVOICE_SUMS:
        draw.text((480, y), name, font=font, fill=0)
        draw.text((900, y), value, font=font, fill=0, anchor="ra")
        y += 48
    y += 60
    for line in INVOICE_FOOT:
        draw.text((80, y), line, font=font, fill=0)
        y += 44
    picture = BytesIO()
    page.quantize(16).save(picture, "PNG", optimize=True)
    return picture.getvalue()


SAMPLES = {
    "bw40-manual.pdf": manual_pdf,
    "minutes-scan.pdf": minutes_scan_pdf,
    "invoice.png": invoice_png,
}


def main(folder: Path) -> None:
    for name, make in SAMPLES.items():
        data = make()
        (folder / name).write_bytes(data)
        print(f"{name}: {len(data):,} bytes")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
