"""The reading order of runs of text, without recognition."""

from __future__ import annotations

from platform_service.ocr.layout import Run, reading_order, row_text

LETTER, LINE = 6.0, 12.0


def run(text: str, left: float, line: int) -> Run[None]:
    return Run(text, left, line * LINE, left + LETTER * len(text), line * LINE + 10, None)


def lines(*runs: Run[None]) -> list[str]:
    return [row_text(row) for row in reading_order(runs)]


def test_columns_of_prose_are_read_one_after_the_other() -> None:
    """A title above them and a line below them keep their places."""
    left = [f"left {number} of a column of prose" for number in range(5)]
    right = [f"right {number} of a column of prose" for number in range(5)]
    runs = [run("A title that is wider than a column of the page", 100, 0)]
    runs += [run(text, 0, 2 + number) for number, text in enumerate(left)]
    runs += [run(text, 260, 2 + number) for number, text in enumerate(right)]
    runs += [run("A last line that crosses the gap between both of the columns", 0, 9)]
    assert lines(*runs) == [runs[0].text, *left, *right, runs[-1].text]


def test_tables_and_forms_are_read_by_row() -> None:
    """Cells are short or of unlike length; a separator stands between them, but not after a label with a colon."""
    table = [
        run(cell, 120.0 * column, row) for row in range(6) for column, cell in enumerate(("Pump", "BW-4711", "12.50"))
    ]
    assert lines(*table) == ["Pump | BW-4711 | 12.50"] * 6
    form = [run(f"A label: {'value ' * (row % 3)}x", 260.0 * column, row) for row in range(6) for column in range(2)]
    assert lines(*form)[1] == "A label: value x | A label: value x"
    assert lines(run("Total:", 0, 0), run("40.00", 200, 0)) == ["Total: 40.00"]


def test_words_of_a_line_have_no_separator() -> None:
    """A gap of a third of the height is between words."""
    assert lines(run("one", 0, 0), run("line", 3 * LETTER + 3, 0)) == ["one line"]
