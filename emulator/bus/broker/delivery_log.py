"""What each message's delivery count is if the broker dies now, in an append-only file beside the database.

A message that is handed out counts as delivered once its lock ends, however it ends: the count must be known before the
receiver has the message. A transaction for every delivery would cost as much as storing the message did; a line at the
end of a file costs a microsecond and outlives the process as well. A line is `[count, sequence number, entity]`, a
count of null: the entity was dropped. The last line of a message is the truth, whatever its row says.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

Key = tuple[str, int]
#: A larger file is folded into the database: reading it must not make a start slow.
FOLD_AT_BYTES = 1024 * 1024


class DeliveryLog:
    """Lines gather until `write`. OSError when they cannot be written, ValueError when the file is another's."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        self._lines: list[str] = []
        self._names: dict[str, str] = {}
        self.counts = _read(path)
        """Of the messages that may be there, what the file says."""
        self._size_bytes = os.fstat(self._file).st_size

    @property
    def is_dirty(self) -> bool:
        return bool(self._lines)

    @property
    def is_long(self) -> bool:
        return self._size_bytes > FOLD_AT_BYTES

    def note(self, entity: str, sequence_number: int, count: int) -> None:
        self.counts[(entity, sequence_number)] = count
        self._lines.append(f"[{count},{sequence_number},{self._name(entity)}]\n")

    def forget(self, entity: str, sequence_number: int) -> None:
        """The message is gone: numbers are never used again, so its lines may stay."""
        self.counts.pop((entity, sequence_number), None)

    def drop(self, entity: str) -> None:
        """The entity is gone; one of the same name would begin to count anew."""
        self.counts = {key: count for key, count in self.counts.items() if key[0] != entity}
        self._lines.append(f"[null,0,{self._name(entity)}]\n")

    def _name(self, entity: str) -> str:
        name = self._names.get(entity)
        if name is None:
            name = self._names[entity] = json.dumps(entity)
        return name

    def write(self) -> None:
        data = "".join(self._lines).encode()
        self._lines.clear()
        self._size_bytes += len(data)
        while data:
            data = data[os.write(self._file, data) :]

    def clear(self) -> None:
        """The database has it all."""
        self.counts.clear()
        self._lines.clear()
        os.ftruncate(self._file, 0)
        self._size_bytes = 0

    def close(self) -> None:
        os.close(self._file)


def _read(path: Path) -> dict[Key, int]:
    """The last line of each message; a last line cut short was never answered for."""
    counts: dict[Key, int] = {}
    for line in path.read_bytes().split(b"\n")[:-1]:
        count, number, entity = json.loads(line)
        if count is None:
            counts = {key: value for key, value in counts.items() if key[0] != entity}
        else:
            counts[(entity, number)] = count
    return counts
