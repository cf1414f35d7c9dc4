"""An append-only file next to the database, for changes that are too frequent for a transaction each (decision 0008).

If the broker dies, the lock of a delivery ends, and the delivery counts. So the count must be stored before the
receiver has the message. A completed message is removed, and a sent message uses a number.

A transaction costs twenty microseconds. A line at the end of a file costs one microsecond, and also survives the
process.

Each line is JSON. The last line about a message or entity is valid:

- `[count, sequence number, entity]` has the delivery count if the broker dies now, in place of the row's count.
- `["gone", sequence number, entity]` means that the message was removed.
- `["last", sequence number, entity]` has the last number that the entity assigned.
- `["dropped", 0, entity]` means that the entity was deleted. Earlier lines about the entity are void.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

Key = tuple[str, int]
#: size above which the file is applied to the database, so that reading it does not slow down a start
FOLD_AT_BYTES = 1024 * 1024
_GONE, _LAST, _DROPPED = "gone", "last", "dropped"


class Journal:
    """The lines of a journal file, and lines to append.

    Raises OSError if a read or write fails, and ValueError or TypeError if the file is not a journal.
    """

    def __init__(self, path: Path) -> None:
        #: delivery counts by message
        self.counts: dict[Key, int] = {}
        #: removed messages that may still have a row
        self.gone: set[Key] = set()
        #: last assigned number of each entity
        self.last: dict[str, int] = {}
        self._lines: list[str] = []
        self._numbers: dict[str, int] = {}
        self._names: dict[str, str] = {}
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        self._size_bytes = 0
        self._read(path.read_bytes())

    def _read(self, data: bytes) -> None:
        for line in data.split(b"\n")[:-1]:  # an incomplete last line: its output was never sent
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
        """Adds the delivery count of a message."""
        self.counts[(entity, sequence_number)] = count
        self._lines.append(f"[{count},{sequence_number},{self._name(entity)}]\n")

    def remove(self, entity: str, sequence_number: int) -> None:
        """Records a removed message. Numbers are never used again, so older lines about the message may stay."""
        key = (entity, sequence_number)
        self.counts.pop(key, None)
        self.gone.add(key)
        self._lines.append(f'["{_GONE}",{sequence_number},{self._name(entity)}]\n')

    def put_number(self, entity: str, sequence_number: int) -> None:
        """Adds the last assigned number of an entity."""
        self._numbers[entity] = self.last[entity] = sequence_number

    def drop(self, entity: str) -> None:
        """Records a deleted entity. A new entity of the same name counts from 1."""
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
        """Writes the numbers before their messages are stored, since a number may be lost but not used twice."""
        if self._numbers:
            self._append([f'["{_LAST}",{number},{self._name(entity)}]\n' for entity, number in self._numbers.items()])
            self._numbers.clear()

    def write(self) -> None:
        """Writes the other lines after messages are stored, since a delivery counts only for a stored message."""
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
        """Empties the journal after its content was stored in the database."""
        for facts in (self.counts, self.gone, self.last, self._lines, self._numbers):
            facts.clear()
        os.ftruncate(self._file, 0)
        self._size_bytes = 0

    def close(self) -> None:
        os.close(self._file)
