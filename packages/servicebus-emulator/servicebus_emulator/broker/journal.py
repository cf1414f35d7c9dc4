"""What changes too often for a transaction each, in an append-only file beside the database.

A delivery counts once its lock ends, however it ends, so its count must be known before the receiver has the message;
completing a message removes it; sending one uses up a number. A line at the end of a file costs a microsecond where a
transaction costs twenty, and outlives the process as well. The lines, as JSON, of which the last about a thing is true:

    [count, sequence number, entity]    the delivery count if the broker dies now, whatever the row says
    ["gone", sequence number, entity]   the message is no more
    ["last", sequence number, entity]   the last number that the entity has given
    ["dropped", 0, entity]              the entity is no more, and what was said about it
"""

from __future__ import annotations

import json
import os
from pathlib import Path

Key = tuple[str, int]
#: A larger file is folded into the database: reading it must not make a start slow.
FOLD_AT_BYTES = 1024 * 1024
_GONE, _LAST, _DROPPED = "gone", "last", "dropped"


class Journal:
    """Lines gather until they are written. OSError when they cannot be, ValueError when the file is another's."""

    def __init__(self, path: Path) -> None:
        #: Delivery counts of the messages that may be there, as the file has them.
        self.counts: dict[Key, int] = {}
        #: Messages that may still have a row.
        self.gone: set[Key] = set()
        self.last: dict[str, int] = {}
        self._lines: list[str] = []
        self._numbers: dict[str, int] = {}
        self._names: dict[str, str] = {}
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        self._size_bytes = 0
        self._read(path.read_bytes())

    def _read(self, data: bytes) -> None:
        for line in data.split(b"\n")[:-1]:  # a last line cut short was never answered for
            what, number, entity = json.loads(line)
            if what == _LAST:
                self.last[entity] = number
            elif what == _DROPPED:
                self._forget_all(entity)
            elif what == _GONE:
                self.remove(entity, number)
            else:
                self.counts[(entity, number)] = what
        self._lines.clear()

    @property
    def is_dirty(self) -> bool:
        return bool(self._lines or self._numbers)

    @property
    def is_long(self) -> bool:
        return self._size_bytes > FOLD_AT_BYTES

    def put_count(self, entity: str, sequence_number: int, count: int) -> None:
        self.counts[(entity, sequence_number)] = count
        self._lines.append(f"[{count},{sequence_number},{self._name(entity)}]\n")

    def remove(self, entity: str, sequence_number: int) -> None:
        """Numbers are never used again, so older lines about the message may stay."""
        key = (entity, sequence_number)
        self.counts.pop(key, None)
        self.gone.add(key)
        self._lines.append(f'["{_GONE}",{sequence_number},{self._name(entity)}]\n')

    def put_number(self, entity: str, sequence_number: int) -> None:
        """The number is given."""
        self._numbers[entity] = self.last[entity] = sequence_number

    def drop(self, entity: str) -> None:
        """The entity is gone; one of the same name would begin to count anew."""
        self._forget_all(entity)
        self._lines.append(f'["{_DROPPED}",0,{self._name(entity)}]\n')

    def _forget_all(self, entity: str) -> None:
        self.counts = {key: count for key, count in self.counts.items() if key[0] != entity}
        self.gone = {key for key in self.gone if key[0] != entity}
        self.last.pop(entity, None)
        self._numbers.pop(entity, None)

    def _name(self, entity: str) -> str:
        name = self._names.get(entity)
        if name is None:
            name = self._names[entity] = json.dumps(entity)
        return name

    def write_numbers(self) -> None:
        """To be done before the messages of these numbers are stored: a number lost is better than one given twice."""
        if self._numbers:
            self._append([f'["{_LAST}",{number},{self._name(entity)}]\n' for entity, number in self._numbers.items()])
            self._numbers.clear()

    def write(self) -> None:
        """The rest, to be done after messages are stored: a delivery of one that was not is none."""
        self._append(self._lines)
        self._lines.clear()

    def _append(self, lines: list[str]) -> None:
        if not lines:
            return
        data = "".join(lines).encode()
        self._size_bytes += len(data)
        while data:
            data = data[os.write(self._file, data) :]

    def clear(self) -> None:
        """The database has it all."""
        for facts in (self.counts, self.gone, self.last, self._lines, self._numbers):
            facts.clear()
        os.ftruncate(self._file, 0)
        self._size_bytes = 0

    def close(self) -> None:
        os.close(self._file)
