"""One host a data folder: two on one store would run everything twice."""

from __future__ import annotations

import os
from pathlib import Path
from typing import IO

from functions_emulator.host.errors import HostError


def lock_data_dir(folder: Path) -> IO[str]:
    """Keeps others out while the file that is given back is open; the system lets go when the process dies."""
    handle = (folder / "host.lock").open("w")
    if os.name == "posix":
        import fcntl

        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            handle.close()
            raise HostError(f"--data {folder}: another host is using it") from None
    return handle
