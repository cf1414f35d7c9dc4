"""One run: its folder and user, its program, and its limits."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import itertools
import json
import os
import pwd
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from lucius_service.errors import CANCELLED, LIMIT_EXCEEDED, FailedFinal, FailedRetry
from lucius_service.step import Watch
from platform_service.packs.privileges import missing
from platform_service.packs.processes import RunProcesses
from platform_service.packs.run_log import RunLog
from platform_service.settings import PackLimits

PACK_FAILED = "PACK_FAILED"
#: exit code of a program that requests another attempt (EX_TEMPFAIL of sysexits.h)
EXIT_RETRY = 75
#: users of runs: numbers that no package and no user account of an image has
_USERS = range(30_000, 60_000)
#: shared folders where any user may write; a run's files there count for its disk and are deleted
_SHARED = (Path("/tmp"), Path("/var/tmp"), Path("/dev/shm"), Path("/run/lock"))
#: prefix of the name of a run's folder
_PREFIX = "lucius-run-"
_MIB = 2**20
#: maximum files and folders of a run; it limits the time of a count
_MAX_FILES = 20_000
#: maximum depth of folders
_MAX_DEPTH = 100
#: seconds between two checks of a running program, and between two counts of its resources
_LOOK_S = 0.1
_COUNT_S = 0.5
#: seconds to store the end of the log
_LOG_S = 60.0

_users = itertools.cycle(random.sample(_USERS, len(_USERS)))


@dataclass(frozen=True)
class RunFolder:
    """The folders of a run. The run reads `pack/`, and reads and writes `work/`. If each run has its own user, other
    runs cannot enter these folders.
    """

    path: Path
    #: None if the runner cannot change the user, and the run has the runner's own
    user: int | None

    @property
    def pack(self) -> Path:
        return self.path / "pack"

    @property
    def work(self) -> Path:
        return self.path / "work"

    @property
    def artifacts(self) -> Path:
        return self.work / "artifacts"

    def used(self) -> tuple[int, int]:
        """Returns the bytes of disk and the number of files of the run, also outside its folder.

        Stops above `_MAX_FILES`. A tree that is too deep to be counted counts as more than `_MAX_FILES`.
        """
        size = files = 0
        too_deep: list[OSError] = []
        for place in [self.work, *self._elsewhere()]:
            depth = len(place.parts) + _MAX_DEPTH
            for where, folders, names in os.walk(
                place, onerror=lambda error: too_deep.append(error) if error.errno == errno.ENAMETOOLONG else None
            ):
                files += len(folders) + len(names)
                if files > _MAX_FILES or too_deep or where.count(os.sep) > depth:
                    return size, _MAX_FILES + 1
                for name in names:
                    with contextlib.suppress(OSError):
                        size += (Path(where) / name).lstat().st_blocks * 512
            with contextlib.suppress(OSError):
                size += place.lstat().st_blocks * 512
        return size, files

    def remove(self) -> None:
        """Deletes all files of the run, at any depth."""
        places = [self.path, *self._elsewhere()]
        subprocess.run(["rm", "-rf", "--", *places], stderr=subprocess.DEVNULL, check=False)

    def _elsewhere(self) -> list[Path]:
        found: list[Path] = []
        for folder in _SHARED if self.user is not None else ():
            with contextlib.suppress(OSError):
                for entry in os.scandir(folder):
                    with contextlib.suppress(OSError):
                        if entry.stat(follow_symlinks=False).st_uid == self.user:
                            found.append(Path(entry.path))
        return found


@dataclass(frozen=True)
class Program:
    """The program of a run, and the Python that runs it."""

    python: str
    #: path of the program in the pack's folder
    entry: str


@contextlib.contextmanager
def run_folder() -> Iterator[RunFolder]:
    """Yields a folder for one run, with its own user if the runner can change users. Deletes the folder and the user's
    files afterwards.
    """
    path, lock = _locked_folder()
    folder = RunFolder(path, None if missing() else next(_free_users()))
    try:
        folder.pack.mkdir()
        folder.artifacts.mkdir(parents=True)
        (folder.work / "tmp").mkdir()
        yield folder
    finally:
        folder.remove()
        os.close(lock)


def remove_abandoned() -> None:
    """Deletes the folders of runs whose runner was killed, and ends remaining processes of their users."""
    for path in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                if os.fstat(lock).st_uid != os.geteuid():
                    continue
                # a running runner holds the lock: BlockingIOError
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                folder = RunFolder(path, _user_of(path))
                if folder.user is not None:
                    RunProcesses(folder.user, 0).kill()
                folder.remove()
            finally:
                os.close(lock)


def _locked_folder() -> tuple[Path, int]:
    """Creates a folder. Returns the folder and the descriptor that locks the folder until the descriptor is closed or
    this process ends.
    """
    while True:
        path = Path(tempfile.mkdtemp(prefix=_PREFIX))
        # a runner that starts now may remove it as abandoned before it is locked
        with contextlib.suppress(FileNotFoundError):
            lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
            fcntl.flock(lock, fcntl.LOCK_EX)
            if path.is_dir():
                return path, lock
            os.close(lock)


def _user_of(path: Path) -> int | None:
    """Returns the user of an abandoned run. Returns None if the run had the runner's own user, or has not begun."""
    with contextlib.suppress(FileNotFoundError):
        user = (path / "work").lstat().st_uid
        return user if user in _USERS and not missing() else None
    return None


def _free_users() -> Iterator[int]:
    for user in _users:
        try:
            pwd.getpwuid(user)
        except KeyError:
            yield user


def hand_over(folder: RunFolder) -> None:
    """Gives `work/` to the run's user, and makes `pack/` readable for that user. No other run's user can enter."""
    if folder.user is None:
        return
    # a run has a group of its own, whose number is that of its user
    os.chown(folder.path, -1, folder.user)
    folder.path.chmod(0o710)
    for where, folders, names in os.walk(folder.pack):
        for name in (".", *folders):
            (Path(where) / name).chmod(0o755)
        for name in names:
            (Path(where) / name).chmod(0o644)
    for where, folders, names in os.walk(folder.work):
        for name in (".", *folders, *names):
            os.chown(Path(where) / name, folder.user, folder.user)


def run_program(
    program: Program, folder: RunFolder, limits: PackLimits, variables: dict[str, str], log: RunLog, watch: Watch
) -> int:
    """Runs the program until the program ends, and returns its exit code. A negative code is the signal that ended the
    program.

    Ends all processes that the program started. Raises FailedFinal(LIMIT_EXCEEDED), and FailedRetry(CANCELLED) if
    `watch` is cancelled or another runner has the attempt.
    """
    spec = {
        "argv": [program.python, "-E", "-s", "-B", "-u", str(folder.pack / program.entry)],
        "folder": str(folder.work),
        "user": folder.user,
        "cpu_s": limits.cpu_s,
        "memory_mib": limits.memory_mib,
        "disk_mib": limits.disk_mib,
        "processes": limits.processes,
    }
    began = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", str(Path(__file__).with_name("sandbox.py")), json.dumps(spec)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=_environment(folder, variables),
        start_new_session=True,
    )
    assert process.stdout is not None
    processes = RunProcesses(folder.user, process.pid)
    try:
        log.start(process.stdout.fileno())
        count_at = 0.0
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                return process.wait(_LOOK_S)
            now = time.monotonic()
            if watch.cancelled or log.overtaken:
                raise FailedRetry(
                    CANCELLED,
                    "the runner stopped the run: the job is cancelled, the attempt has ended, a limit is reached, or "
                    "another runner has the attempt",
                )
            if now - began > limits.seconds:
                raise FailedFinal(LIMIT_EXCEEDED, f"the run took longer than {limits.seconds} s")
            if now >= count_at:
                _check(processes, folder, limits)
                # a run with many files takes long to count
                count_at = now + max(_COUNT_S, 10 * (time.monotonic() - now))
    finally:
        processes.kill()
        process.wait()
        if log.finish(_LOG_S):
            process.stdout.close()


def _check(processes: RunProcesses, folder: RunFolder, limits: PackLimits) -> None:
    """Raises FailedFinal(LIMIT_EXCEEDED) for a run over its limits."""
    usage = processes.usage()
    disk, files = folder.used()
    for used, limit, what in (
        (usage.processes, limits.processes, f"{limits.processes} processes"),
        (usage.memory, limits.memory_mib * _MIB, f"{limits.memory_mib} MiB of memory"),
        (usage.cpu_s, limits.cpu_s, f"{limits.cpu_s} s of CPU"),
        (disk + usage.nameless, limits.disk_mib * _MIB, f"{limits.disk_mib} MiB of disk"),
        (files, _MAX_FILES, f"{_MAX_FILES} files, or {_MAX_DEPTH} folders within folders"),
    ):
        if used > limit:
            raise FailedFinal(LIMIT_EXCEEDED, f"the run used more than {what}, its limit")


def _environment(folder: RunFolder, variables: dict[str, str]) -> dict[str, str]:
    """Returns the whole environment of the program, without variables of the runner."""
    return {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "HOME": str(folder.work),
        "TMPDIR": str(folder.work / "tmp"),
        # each arena reserves address space, which the limit of memory counts
        "MALLOC_ARENA_MAX": "2",
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_NUM_THREADS": "1",
        **variables,
    }
