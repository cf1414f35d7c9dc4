"""The folder `FILE.part/`, in which an export writes FILE.

A lock allows only one export at a time to use the folder, except on Windows and on file systems without locks.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path

from lucius_client.cli.exits import UsageError

#: file that an export locks in its folder
_LOCK = "lock"
#: errors of a file system without locks
_NO_LOCKS = (errno.EBADF, errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP)


@contextlib.contextmanager
def part_folder(output: Path, *, continues: bool) -> Iterator[Path]:
    """Yields the folder, and removes the folder afterwards.

    With `continues`, the folder remains after an error, and the next export uses the files in the folder. Raises
    UsageError if another export uses the folder, or if a file cannot be written.
    """
    part = output.with_name(f"{output.name}.part")
    try:
        with _locked(part):
            if not continues:
                _remove(part, keep=_LOCK)
            try:
                yield part
            except BaseException:
                if not continues:
                    _remove(part)
                raise
            _remove(part)
    except OSError as error:
        raise UsageError(f"cannot write {error.filename or output}: {error.strerror}; name another file") from error
    finally:
        # NFS keeps the lock file until it is closed, and the folder of another export has files; rmdir fails then
        with contextlib.suppress(OSError):
            part.rmdir()


def _remove(part: Path, *, keep: str = "") -> None:
    # remove the lock file last, since another export can use the folder afterwards
    for each in sorted(part.iterdir(), key=lambda each: each.name == _LOCK):
        if each.name != keep:
            each.unlink()


@contextlib.contextmanager
def _locked(part: Path) -> Iterator[None]:
    """Locks the folder, except on Windows and on file systems without locks. Raises UsageError if another export uses
    the folder.
    """
    part.mkdir(parents=True, exist_ok=True)
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    with contextlib.ExitStack() as opened:
        try:
            # NFS locks only files that are open for writing
            lock = opened.enter_context((part / _LOCK).open("a"))
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_held = os.path.samestat(os.fstat(lock.fileno()), (part / _LOCK).stat())
        except (BlockingIOError, FileNotFoundError):  # another export has the lock, or removed the file
            is_held = False
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
            is_held = True
        if not is_held:
            raise UsageError(f"another export uses {part}; wait until that export ends, or name another file")
        yield
