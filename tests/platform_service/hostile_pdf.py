"""Small PDFs that are much work, or no end of work, for a careless reader."""

from __future__ import annotations

import zlib

#: 2 ** LEVELS drawings; pdfium follows at most 40 forms into one another
LEVELS = 35


def hostile_pdf() -> bytes:
    """One page in about 10 KB that keeps a reader busy for years: each of its forms draws the next one twice."""
    first_form = 4
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents %d 0 R "
        b"/Resources << /XObject << /F %d 0 R >> >> >>" % (first_form + LEVELS, first_form),
    ]
    for level in range(LEVELS):
        last = level == LEVELS - 1
        body = b"0 0 10 10 re f" if last else b"/F Do /F Do"
        inside = b"" if last else b"/Resources << /XObject << /F %d 0 R >> >>" % (first_form + level + 1)
        head = b"<< /Type /XObject /Subtype /Form /BBox [0 0 600 800] %s /Length %d >>" % (inside, len(body))
        objects.append(head + b"\nstream\n" + body + b"\nendstream")
    objects.append(b"<< /Length 5 >>\nstream\n/F Do\nendstream")
    return _pdf(objects)


def many_pages_pdf(count: int) -> bytes:
    """Empty pages, each about 70 bytes."""
    kids = b" ".join(b"%d 0 R" % number for number in range(3, 3 + count))
    page = b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] >>"
    tree = b"<< /Type /Pages /Kids [%s] /Count %d >>" % (kids, count)
    return _pdf([b"<< /Type /Catalog /Pages 2 0 R >>", tree, *[page] * count])


def circular_pdf() -> bytes:
    """Its tree of pages is its own child, and so is the form on the page after it."""
    return _pdf(
        [
            b"<< /Type /Catalog /Pages 2 0 R >>",
            b"<< /Type /Pages /Kids [2 0 R 3 0 R] /Count 2 >>",
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents 5 0 R "
            b"/Resources << /XObject << /F 4 0 R >> >> >>",
            b"<< /Type /XObject /Subtype /Form /BBox [0 0 600 800] /Length 5 "
            b"/Resources << /XObject << /F 4 0 R >> >> >>\nstream\n/F Do\nendstream",
            b"<< /Length 5 >>\nstream\n/F Do\nendstream",
        ]
    )


def large_image_pdf(side: int) -> bytes:
    """A page with a white picture of `side` x `side` pixels, a thousandth of them in bytes."""
    packer = zlib.compressobj(9)
    row = b"\xff" * side
    pixels = b"".join(packer.compress(row) for _ in range(side)) + packer.flush()
    content = b"q 600 0 0 800 0 0 cm /I Do Q"
    return _pdf(
        [
            b"<< /Type /Catalog /Pages 2 0 R >>",
            b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents 4 0 R "
            b"/Resources << /XObject << /I 5 0 R >> >> >>",
            b"<< /Length %d >>\nstream\n%s\nendstream" % (len(content), content),
            b"<< /Type /XObject /Subtype /Image /Width %d /Height %d /ColorSpace /DeviceGray /BitsPerComponent 8 "
            b"/Filter /FlateDecode /Length %d >>\nstream\n%s\nendstream" % (side, side, len(pixels), pixels),
        ]
    )


def _pdf(objects: list[bytes]) -> bytes:
    pdf, places = b"%PDF-1.7\n", []
    for number, each in enumerate(objects, 1):
        places.append(len(pdf))
        pdf += b"%d 0 obj\n%s\nendobj\n" % (number, each)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    return pdf + b"xref\n0 %d\n0000000000 65535 f \n%strailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (
        len(objects) + 1,
        table,
        len(objects) + 1,
        len(pdf),
    )
