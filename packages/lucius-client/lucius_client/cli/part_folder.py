"""The folder `FILE.part/`, in which one export at a time makes FILE."""

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
    """Yields the folder, and removes it at the end.

    If an export `continues`, an error keeps the folder, and the next export gets it as it is. Raises UsageError if
    another export uses it, or a file cannot be written.
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
        raise UsageError(f"cannot write {error.filename or output}: {error.strerror}") from error
    finally:
        # NFS keeps the lock's file until it is closed; the folder of another export is not empty
        with contextlib.suppress(OSError):
            part.rmdir()


def _remove(part: Path, *, keep: str = "") -> None:
    # the lock last: another export may use the folder then
    for each in sorted(part.iterdir(), key=lambda each: each.name == _LOCK):
        if each.name != keep:
            each.unlink()


@contextlib.contextmanager
def _locked(part: Path) -> Iterator[None]:
    """Keeps other exports from the folder, if its file system has locks. Raises UsageError if one uses it."""
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
        except (BlockingIOError, FileNotFoundError):  # held by another export, or removed at its end
            is_held = False
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                raise
            is_held = True
        if not is_held:
            raise UsageError(f"another export uses {part}; wait for its end, or name another file")
        yield
