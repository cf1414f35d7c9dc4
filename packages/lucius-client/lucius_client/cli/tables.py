"""Tables and pages for people.

A table has one line for each row, and a page has one line for each column of a row. No cell is wrapped. Ids stay
complete, other cells are shortened, and columns that do not fit into the terminal are dropped by priority.

A pipe gets all columns of the table in full. `-o wide` adds further columns and exact times.

The module does not use the tables of rich, which wrap or crop every column alike, also ids.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import UTC, datetime
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from lucius_client.cli.rendering import Json, coloured, one_line

#: characters between two columns
_GAP = 2
_NOTHING = "-"
#: maximum seconds ahead at which a time counts as now, since the clocks of client and API differ
_SKEW_S = 5
_UNITS = ((365 * 86_400, "y"), (86_400, "d"), (3600, "h"), (60, "m"))


@dataclass(frozen=True)
class Column:
    """A column of a table, and a line of a page."""

    heading: str
    #: name of a field of the row, or a function of the row; None and "" are shown as a dash
    value: str | Callable[[Json], Any]
    _: KW_ONLY
    #: minimum characters to which a cell is shortened; None if it is not shortened
    room: int | None = None
    #: if the terminal is too narrow, columns without any value are dropped first, then the column with the highest
    #: number; 0: never dropped
    drop: int = 0
    #: `True` for a time: a table shows its age, a page and `-o wide` the time itself
    at: bool = False
    #: `True` if it is only on a page and with `-o wide`
    wide: bool = False
    #: `True` if a shortened cell keeps its end, for paths and URIs
    keeps_end: bool = False


@dataclass(frozen=True)
class Listing:
    """The columns of a table, the noun for its rows, and the id of a row."""

    #: plural noun, for "No jobs."
    noun: str
    #: name of the field that `-o ids` prints, or a function of the row
    id: str | Callable[[Json], str]
    columns: Sequence[Column]

    def id_of(self, row: Json) -> str:
        return str(row[self.id] if isinstance(self.id, str) else self.id(row))


#: columns for the changes of a webhook or an incident
LOG = Listing(
    "changes",
    "seq",
    (
        Column("no", "seq"),
        Column("at", "at", at=True),
        Column("type", "type"),
        Column("actor", "actor", room=8, drop=2),
        Column("reason", "reason", room=10, drop=1),
    ),
)


def status(name: str = "status") -> Callable[[Json], Text]:
    """Returns a function of a row that formats the status in the field `name` in the colour of the status."""
    return lambda row: coloured(str(row.get(name) or "-"))


def age(instant: datetime, now: datetime) -> str:
    """Formats a time as an age in its largest unit: `3m`, or `in 3m` for a later time."""
    seconds = int((now - instant).total_seconds())
    ahead, seconds = seconds < -_SKEW_S, abs(seconds) if abs(seconds) > _SKEW_S else max(0, seconds)
    size, unit = next((each for each in _UNITS if seconds >= each[0]), (1, "s"))
    return f"{'in ' if ahead else ''}{seconds // size}{unit}"


def age_of(instant: Any, now: datetime | None = None) -> str:
    """Returns the age of a timestamp of the API, as `age` does. Returns an invalid timestamp unchanged."""
    try:
        return age(datetime.fromisoformat(str(instant)), now or datetime.now(UTC))
    except (ValueError, TypeError):
        return str(instant)


def print_table(screen: Console, listing: Listing, rows: Sequence[Json], *, wide: bool = False) -> None:
    """Prints a header and one line per row. Cuts lines at the terminal's width, except for `wide` and ids."""
    # FORCE_COLOR makes rich treat a pipe as a terminal; it gets colours and stays a pipe
    width = screen.width if screen.file.isatty() and not wide else None
    for line in table_lines(listing, rows, width, wide=wide):
        screen.print(line, soft_wrap=True)


def table_lines(listing: Listing, rows: Sequence[Json], width: int | None, *, wide: bool = False) -> list[Text]:
    """Returns the header and a line for each row. Drops and shortens columns to fit `width` characters.

    Ids are not shortened, so that a line can be longer. If `width` is None, lines have no limit.
    """
    columns = [each for each in listing.columns if wide or not each.wide]
    now = datetime.now(UTC)
    cells = [[_cell(column, row, None if wide else now) for column in columns] for row in rows]
    shown = _fitted(columns, cells, width)
    header = [Text(column.heading, style="bold") for column in columns]
    for index, room in shown.items():
        if columns[index].keeps_end:
            for line in cells:
                line[index] = _end_of(line[index], room)
    return [_line([line[index] for index in shown], shown.values()) for line in (header, *cells)]


def print_page(screen: Console, lines: Iterable[tuple[str, Any]], now: datetime | None = None) -> None:
    """Prints a line for each label and value, without lines that have no value."""
    shown = [(label, text) for label, value in lines if (text := _text(value)) is not None]
    width = max((cell_len(label) for label, _ in shown), default=0) + _GAP
    for label, text in shown:
        screen.print(_line([Text(label, style="bold"), text], [width - _GAP, cell_len(text.plain)]), soft_wrap=True)


def page_of(listing: Listing, row: Json, now: datetime | None = None) -> list[tuple[str, Any]]:
    """Returns the lines of a page, one for each column of a row."""
    return [
        (each.heading.capitalize(), exact(_value(each, row), now) if each.at else _value(each, row))
        for each in listing.columns
    ]


def exact(instant: Any, now: datetime | None = None) -> str | None:
    """Formats a timestamp with its age: `2026-11-26T14:52:23Z (3m ago)`. Returns None for None."""
    if not instant:
        return None
    passed = age_of(instant, now)
    return f"{to_second(instant)} ({passed})" if passed.startswith("in ") else f"{to_second(instant)} ({passed} ago)"


def to_second(instant: Any) -> str:
    """Formats a timestamp as `2026-11-26T14:52:23Z`, without a fraction of a second."""
    return re.sub(r"\.\d+", "", str(instant)).replace("+00:00", "Z")


def line_of(listing: Listing, row: Json) -> str:
    """Formats a row as one line of text with exact times, for rows that arrive one by one."""
    return "  ".join(_cell(column, row, None).plain for column in listing.columns if not column.wide)


def _value(column: Column, row: Json) -> Any:
    return row.get(column.value) if isinstance(column.value, str) else column.value(row)


def _text(value: Any) -> Text | None:
    """Returns a value on one line, or None without a value."""
    if value is None or value in ("", {}, []):
        return None
    if isinstance(value, Text):
        return Text(one_line(value.plain), style=value.style)
    return Text(one_line(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)))


def _cell(column: Column, row: Json, now: datetime | None) -> Text:
    """Formats a cell. `now` None means exact times."""
    value = _value(column, row)
    return _text(age_of(value, now) if column.at and value and now else value) or Text(_NOTHING)


def _fitted(columns: Sequence[Column], cells: Sequence[Sequence[Text]], width: int | None) -> dict[int, int]:
    """Returns the index and width of each column that fits into `width`. None means an unlimited width."""
    whole = [
        max(cell_len(column.heading), *(cell_len(line[index].plain) for line in cells), 0)
        for index, column in enumerate(columns)
    ]
    shown = dict(enumerate(whole))
    if width is None:
        return shown
    for index, column in enumerate(columns):
        if column.room is not None:
            shown[index] = min(whole[index], max(column.room, cell_len(column.heading)))

    def spare() -> int:
        return width - sum(shown.values()) - _GAP * (len(shown) - 1)

    empty = {index for index in shown if all(line[index].plain == _NOTHING for line in cells)}
    while spare() < 0 and (droppable := [index for index in shown if columns[index].drop]):
        del shown[max(droppable, key=lambda index: (index in empty, columns[index].drop, index))]
    while spare() > 0 and (short := [index for index in shown if shown[index] < whole[index]]):
        shown[min(short, key=lambda index: shown[index])] += 1
    return shown


def _end_of(cell: Text, width: int) -> Text:
    """Returns the cell without as many first characters as needed to fit into `width`."""
    if cell_len(cell.plain) <= width:
        return cell
    kept = cell.plain
    while cell_len(kept) > width - 1:
        kept = kept[1:]
    return Text(f"…{kept}", style=cell.style)


def _line(cells: Sequence[Text], widths: Iterable[int]) -> Text:
    line = Text()
    for cell, width in zip(cells, widths, strict=True):
        if line:
            line.append(" " * _GAP)
        cell = cell.copy()
        cell.truncate(width, overflow="ellipsis", pad=True)
        line.append_text(cell)
    line.rstrip()
    return line
