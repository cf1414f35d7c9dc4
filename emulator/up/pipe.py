"""What a child says, line by line."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable


class LinePipe:
    """A pipe that a child writes to: `write_end` goes to the child, then `listen()`, or `abandon()` if none came.

    A pipe of our own, since with asyncio's a process counts as ended only when every grandchild, too, has closed
    its end. Read in chunks, so that no line is too long.
    """

    def __init__(self, hear: Callable[[str], None]) -> None:
        self._hear = hear
        self._read_end, self.write_end = os.pipe()
        self._pump: asyncio.Task[None] | None = None

    def listen(self) -> None:
        """The child has its end; calls `hear` with every line from now on."""
        os.close(self.write_end)
        self._pump = asyncio.create_task(self._read())

    def abandon(self) -> None:
        os.close(self.write_end)
        os.close(self._read_end)

    async def drain(self, timeout_s: float) -> None:
        """Hears the last words of a child that has ended; who else holds the pipe is not waited for."""
        if self._pump is not None:
            await asyncio.wait({self._pump}, timeout=timeout_s)
            self._pump.cancel()

    async def _read(self) -> None:
        stream = asyncio.StreamReader()
        loop = asyncio.get_running_loop()
        transport, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(stream), os.fdopen(self._read_end, "rb", buffering=0)
        )
        try:
            rest = b""
            while chunk := await stream.read(65536):
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    self._tell(line)
            if rest:
                self._tell(rest)
        finally:
            transport.close()

    def _tell(self, line: bytes) -> None:
        self._hear(line.decode(errors="replace").rstrip("\r"))
