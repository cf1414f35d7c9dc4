"""`emulator.up.stack` over small programs: without ports and models."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from emulator.up.child import ChildSpec
from emulator.up.data_dir import DataDir
from emulator.up.errors import ChildFailed
from emulator.up.serve import log
from emulator.up.stack import Stack
from tests.waiting import is_gone

DEADLINE_S = 90
SERVES = """
import signal, sys, time
def end(*_):
    print({name!r}, file=open({diary!r}, "a"))
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
print("ready {name}", flush=True)
while True:
    time.sleep(1)
"""


class Desk:
    """A stack of small programs, its log lines and the order in which they ended."""

    def __init__(self, folder: Path) -> None:
        self.data = DataDir(folder)
        self.diary = folder / "diary"
        self.lines: list[str] = []

    def serving(self, name: str, rank: int = 0) -> ChildSpec:
        return self.program(name, SERVES.format(name=name, diary=str(self.diary)), rank)

    def program(self, name: str, code: str, rank: int = 0) -> ChildSpec:
        argv = (sys.executable, "-u", "-c", code)
        return ChildSpec(name, argv, dict(os.environ), cwd=self.data.path, stop_rank=rank)

    @asynccontextmanager
    async def running(self, *waves: list[ChildSpec]) -> AsyncIterator[Stack]:
        """Serves while the block runs; its failure, if any, comes out of the block."""
        stop, serving = asyncio.Event(), asyncio.Event()
        stack = Stack(waves, self.data, self.lines.append)

        async def on_wave(number: int) -> None:
            if number == len(waves) - 1:
                serving.set()

        task = asyncio.create_task(stack.serve(stop, on_wave))
        ready = asyncio.create_task(serving.wait())
        await asyncio.wait({task, ready}, return_when=asyncio.FIRST_COMPLETED, timeout=DEADLINE_S)
        ready.cancel()
        try:
            if not task.done():
                yield stack
        finally:
            stop.set()
            await task

    def pid(self, name: str) -> int:
        return json.loads((self.data.path / "up.json").read_text())["children"][name]["pid"] or 0

    async def until(self, true: Callable[[], bool]) -> None:
        async with asyncio.timeout(DEADLINE_S):
            while not true():  # noqa: ASYNC110 - other processes are watched
                await asyncio.sleep(0.02)


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


async def test_users_end_before_what_they_use(desk: Desk) -> None:
    """A stop ends the children by rank, in any order of their starts."""
    async with desk.running([desk.serving("storage", 2), desk.serving("bus", 1)], [desk.serving("service", 0)]):
        pass
    assert desk.diary.read_text().split() == ["service", "bus", "storage"]


async def test_a_killed_child_is_started_again(desk: Desk) -> None:
    """A child that was killed is started again, and the log has the reason."""
    async with desk.running([desk.serving("host")]):
        first = desk.pid("host")
        os.kill(first, signal.SIGKILL)
        await desk.until(lambda: sum("host is ready" in line for line in desk.lines) == 2)
        assert desk.pid("host") not in (0, first)
    assert any("host ended (killed by SIGKILL); restart in" in line for line in desk.lines)


async def test_a_first_start_that_fails_ends_the_stack(desk: Desk) -> None:
    """The failure has the child's own last line, and the children that did start are stopped."""
    broken = desk.program("host", "import sys; sys.exit('host: port 7071 is in use')")
    with pytest.raises(ChildFailed, match=r"^host does not start: host: port 7071 is in use \(log: .*host\.log\)$"):
        async with desk.running([desk.serving("bus")], [broken]):
            pass
    assert desk.diary.read_text().split() == ["bus"]


async def test_a_child_that_cannot_come_back_ends_the_stack(desk: Desk) -> None:
    """Five failed starts in a row after a good one are taken as final. Over 5 s: the waits between them are real."""
    flag = desk.data.path / "served-once"
    code = f"""
import pathlib, sys, time
flag = pathlib.Path({str(flag)!r})
if flag.exists():
    sys.exit("no more")
print("ready x", flush=True)
while not flag.exists():
    time.sleep(0.02)
"""

    async def served(number: int) -> None:
        """It ends once it was seen to be ready."""
        flag.touch()

    stack = Stack([[desk.program("host", code)]], desk.data, desk.lines.append)
    with pytest.raises(ChildFailed, match="no more"):
        await asyncio.wait_for(stack.serve(asyncio.Event(), served), DEADLINE_S)
    assert sum("; restart in " in line for line in desk.lines) == 5


async def test_what_a_child_started_itself_ends_with_it(desk: Desk) -> None:
    """A grandchild does not outlive the stop, nor the kill of its parent."""
    note = desk.data.path / "grandchild"
    code = f"""
import pathlib, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
pathlib.Path({str(note)!r}).write_text(str(child.pid))
print("ready x", flush=True)
time.sleep(600)
"""
    async with desk.running([desk.program("host", code)]):
        orphan = int(note.read_text())
        os.kill(desk.pid("host"), signal.SIGKILL)
        await desk.until(lambda: is_gone(orphan) and sum("is ready" in line for line in desk.lines) == 2)
        grandchild = int(note.read_text())
    await desk.until(lambda: is_gone(grandchild))


async def test_a_paused_child_hears_the_stop(desk: Desk) -> None:
    """A child under SIGSTOP drains like the others instead of being killed."""
    async with desk.running([desk.serving("bus")]):
        os.kill(desk.pid("bus"), signal.SIGSTOP)
    assert desk.diary.read_text().split() == ["bus"]


async def test_every_line_of_a_child_is_in_its_log(desk: Desk) -> None:
    """Both streams are kept, with time and name; warnings are shown, but not that tokens are off."""
    code = """
import sys, time
print("x" * 200_000)
print('INFO fine\\nWARNING {"event": "AUTH_NONE"}\\nWARNING odd', file=sys.stderr)
print("ready x", flush=True)
time.sleep(600)
"""
    async with desk.running([desk.program("sis", code)]):
        await desk.until(lambda: "sis: WARNING odd" in desk.lines)
    log = desk.data.log_path("sis").read_text()
    assert " sis | INFO fine\n" in log
    assert "x" * 200_000 in log
    assert "AUTH_NONE" in log
    assert not any("INFO" in line or "AUTH_NONE" in line for line in desk.lines)


def test_a_line_of_a_child_commands_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """A child's quote of a request is shown without its control characters."""
    log("bus: refused path=\x1b]0;x\x07/\x9b2J\u202eä")
    [line] = capsys.readouterr().err.splitlines()
    assert line.endswith("up: bus: refused path=\ufffd]0;x\ufffd/\ufffd2J\ufffdä")
