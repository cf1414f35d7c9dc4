"""Output of `lucius`: text, JSON and the console for tables and progress.

All output of the commands for a terminal uses this module. Text from other people in a job (labels, reasons, errors of
services) can contain characters that control a terminal. This module escapes such characters.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable
from enum import StrEnum
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

Json = dict[str, Any]

#: control characters of ECMA-48 (C0 except tab and line feed, DEL, C1), the embeddings, overrides and isolates of
#: Unicode's bidirectional algorithm (UAX #9), and surrogates, which no output can encode
_COMMANDS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")

_LINE_BREAKS = re.compile("[\t\n\u2028\u2029]")

_COLOURS = {"SUCCEEDED": "green", "FAILED_FINAL": "red", "FAILED_RETRY": "yellow", "CANCELLED": "magenta"}


class OutputFormat(StrEnum):
    TABLE = "table"
    #: format with every column in full length and with exact times
    WIDE = "wide"
    JSON = "json"
    IDS = "ids"


def visible(text: str) -> str:
    r"""Returns `text` with an escape (`\x1b`, `\u202e`) for each character that controls a terminal. Tabs and line
    feeds stay.
    """
    return _COMMANDS.sub(_escape, text)


def one_line(text: str) -> str:
    """Returns `visible` text with line breaks and tabs escaped too."""
    return _LINE_BREAKS.sub(_escape, visible(text))


def _escape(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()


def write(text: str, *, stderr: bool = False) -> None:
    """Writes one or several lines to stdout or stderr."""
    print(visible(text), file=sys.stderr if stderr else sys.stdout, flush=True)


def json_text(document: Any) -> str:
    """Formats `document` as indented JSON in which characters that control a terminal are escaped."""
    text = json.dumps(document, indent=2, ensure_ascii=False)
    return _COMMANDS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def write_json(document: Any) -> None:
    """Writes `document` to stdout in the form of `json_text`."""
    print(json_text(document))


class _Screen(Console):
    """A console whose text is `visible` and never markup. Only its own colours and cursor movements have an effect."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(visible(segment.text), segment.style)


def console(*, stderr: bool = False) -> Console:
    """Returns a console on stdout or stderr. Without a terminal, the console has no colours and a width of 500
    characters.
    """
    plain = _Screen(stderr=stderr, markup=False, emoji=False, highlight=False)
    if plain.is_terminal:
        return plain
    return _Screen(stderr=stderr, markup=False, emoji=False, width=500, no_color=True, highlight=False)


def coloured(status: str) -> Text:
    return Text(status, style=_COLOURS.get(status, "cyan"))
