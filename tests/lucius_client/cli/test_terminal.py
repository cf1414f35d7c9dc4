"""`lucius` in a terminal."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import time

import pytest

from tests.lucius_client.cli.command import INVOICE, PROGRAM, run_main, stdout_of
from tests.running_stack import ROOT, RunningStack

DEADLINE_S = 120


class Terminal:
    """A program in its own pseudo-terminal; `seen` is its output so far."""

    def __init__(self, stack: RunningStack, *words: str) -> None:
        self._ours, theirs = pty.openpty()
        settings = {"LUCIUS_API": stack.api, "LUCIUS_BLOB_CONNECTION": stack.storage_connection, "COLUMNS": "120"}
        settings["LUCIUS_TENANT"] = "demo"
        self.process = subprocess.Popen(
            [str(PROGRAM), *words],
            cwd=ROOT,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env={**os.environ, **settings, "TERM": "xterm-256color"},
            start_new_session=True,
            # a shell starts background programs with SIGINT ignored, and a child would inherit that
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        os.close(theirs)
        self.seen = ""

    def read_until(self, text: str | None) -> None:
        """Reads until `text` is seen; None: until the program ends."""
        deadline = time.monotonic() + DEADLINE_S
        while text is None or text not in self.seen:
            assert time.monotonic() < deadline, self.seen
            try:
                read = os.read(self._ours, 65536)
            except OSError:  # the other end is closed
                read = b""
            if not read:
                assert text is None, self.seen
                return
            self.seen += read.decode(errors="replace")

    def end(self) -> int:
        self.read_until(None)
        os.close(self._ours)
        return self.process.wait(DEADLINE_S)


@pytest.mark.parametrize("environment", [{}, {"NO_COLOR": "1"}])
def test_no_color_removes_colours(stack: RunningStack, environment: dict[str, str]) -> None:
    """Output in a terminal has colours, unless NO_COLOR is set."""
    job_id = stdout_of(stack, "submit", INVOICE, "-p", "OCR", "-o", "ids").strip()
    shown = run_main("job", "show", job_id, api=stack.api, terminal=True, TERM="xterm-256color", **environment)
    assert shown.returncode == 0
    assert job_id in shown.stdout
    assert ("\x1b[3" in shown.stdout) is not bool(environment)


def test_watching_ends_with_ctrl_c_and_the_job_goes_on(stack: RunningStack) -> None:
    """Ctrl-C is exit code 130, shows the cursor again and prints no stack trace; the job continues."""
    stack.pause("ocr")
    try:
        watched = Terminal(stack, "submit", INVOICE, "-p", "OCR", "--again", "--watch")
        watched.read_until("INITIATED")
        watched.process.send_signal(signal.SIGINT)
        assert watched.end() == 130
        assert watched.seen.endswith("\x1b[?25h")
        assert "Traceback" not in watched.seen
        assert stdout_of(stack, "jobs", "--status", "queued,in_progress", "--limit", "1", "-o", "ids")
    finally:
        stack.resume("ocr")
