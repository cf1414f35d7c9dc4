"""Faults of a bundle, with their positions."""

from __future__ import annotations

import re
from dataclasses import dataclass

#: characters that control a terminal or break a line: control characters, line and paragraph separators, embeddings,
#: overrides and isolates of Unicode (UAX #9), surrogates
_COMMANDS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_MAX_TEXT = 300


@dataclass(frozen=True)
class Fault:
    """The first broken link of a level."""

    why: str
    file: str | None = None
    #: number of the row, from 1
    row: int | None = None
    job_id: str | None = None
    #: number of the event, or of the log entry
    seq: int | None = None

    def __str__(self) -> str:
        """Formats the fault as one line, such as `history.jsonl row 17: job_1 event 5: event 5 is missing`."""
        place = f"{self.file} row {self.row}" if self.row else self.file
        event = " ".join(filter(None, (self.job_id, f"event {self.seq}" if self.seq else None)))
        return ": ".join(visible(part) for part in (place, event, self.why) if part)


class Unreadable(Exception):
    """The bundle cannot be read completely. The unread rest is not checked."""

    def __init__(self, why: str, file: str | None = None, row: int | None = None) -> None:
        self.fault = Fault(why, file, row)
        super().__init__(str(self.fault))


def visible(text: str) -> str:
    """Returns text from an untrusted file as one line without characters that control a terminal. Cuts the line at 300
    characters.
    """
    shown = _COMMANDS.sub(lambda found: found[0].encode("unicode_escape").decode(), text)
    return shown if len(shown) <= _MAX_TEXT else f"{shown[: _MAX_TEXT - 3]}..."
