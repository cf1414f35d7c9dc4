"""`make demo` as a new user runs it: its output, and the removal of everything.

Over 5 s: each demo starts a whole stack and reads real documents.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.running_stack import ROOT, SMALL_INVOICE
from tests.waiting import is_gone, wait_until

#: The promise is two minutes after set-up; a busy machine gets the time that pytest gives.
DEMO_TIMEOUT_S = 170


class Demo:
    """One run of `make demo` without a terminal, its home and temporary folder watched."""

    def __init__(self, folder: Path, *words: str) -> None:
        self.home, self.temporary, self.output = folder / "home", folder / "tmp", folder / "output"
        for path in (self.home, self.temporary):
            path.mkdir()
        self.before = folders()
        environment = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
        with self.output.open("w") as out:
            self.process = subprocess.Popen(
                ["make", "--no-print-directory", "demo", *words],
                cwd=ROOT,
                env={**environment, "HOME": str(self.home), "TMPDIR": str(self.temporary)},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # its own process group, because Ctrl-C is sent to the whole group
                preexec_fn=_hear_ctrl_c,
            )

    @property
    def text(self) -> str:
        return self.output.read_text()

    def wait_for(self, words: str) -> None:
        wait_until(
            lambda: words in self.text or self.process.poll() is not None, words, deadline_s=DEMO_TIMEOUT_S, poll_s=0.05
        )
        assert words in self.text, self.text

    def ends(self) -> int:
        return self.process.wait(DEMO_TIMEOUT_S)

    def interrupt(self) -> None:
        """Ctrl-C in its terminal."""
        os.killpg(self.process.pid, signal.SIGINT)

    def left_nothing(self) -> None:
        """Checks that it left no process, no file in home and temporary folder, and no folder of its own."""
        for pid in re.findall(r"process (\d+)\)", self.text):
            wait_until(lambda pid=pid: is_gone(int(pid)), f"process {pid} outlived the demo:\n{self.text}")  # type: ignore[misc]
        assert [*self.home.iterdir(), *self.temporary.iterdir()] == []
        assert folders() <= self.before, self.text


def _hear_ctrl_c() -> None:
    """Restores SIGINT: a shell starts background programs with SIGINT ignored, and the demo would inherit that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def folders() -> set[Path]:
    return set((ROOT / ".lucius").glob("demo-*"))


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[Demo]:
    running = Demo(tmp_path)
    yield running
    if running.process.poll() is None:
        running.process.terminate()
        running.process.wait(DEMO_TIMEOUT_S)


def test_the_samples_are_answered(demo: Demo) -> None:
    """It exits 0 with every sample SUCCEEDED, shows answers with their pages and the counts, and leaves nothing."""
    assert demo.ends() == 0, demo.text
    for answer in ("Margaret Ellison", "FB-2024-0173", "85 newton"):
        assert answer in demo.text
    assert re.search(r"invoice\.png  step 3/3 sis  SUCCEEDED  attempt 1/3", demo.text)
    counted = r"Service Bus: 9 directives, (1[89]|[2-9]\d) replies, \d+ messages about events, 0 dead letters"
    assert re.search(counted, demo.text)
    assert "3 of 3 jobs SUCCEEDED" in demo.text
    assert "\x1b" not in demo.text
    assert "Ctrl-C" not in demo.text
    demo.left_nothing()


@pytest.mark.long
def test_own_files_a_question_and_a_document_that_fails(tmp_path: Path) -> None:
    """DOCS accepts files outside the checkout, also with spaces in their names, and ASK a question.

    A file that no service can read is shown with its code, and the demo ends with an error.
    """
    own, broken = tmp_path / "my invoice.png", tmp_path / "broken.pdf"
    shutil.copy(SMALL_INVOICE, own)
    broken.write_bytes(b"%PDF-1.7 this is not a PDF")
    demo = Demo(tmp_path, f"DOCS='{own}' {broken}", "ASK=What's the invoice number?")
    assert demo.ends() == 2, demo.text  # make's own code for a recipe that failed
    assert "FB-2024-0173" in demo.text
    assert "FAILED_FINAL" in demo.text
    assert "1 of 2 jobs SUCCEEDED" in demo.text
    demo.left_nothing()


@pytest.mark.parametrize(
    "stage",
    [
        "starting Azurite",
        *(pytest.param(stage, marks=pytest.mark.long) for stage in ("bus is ready", "azurite is ready")),
        *(pytest.param(stage, marks=pytest.mark.long) for stage in ("host is ready", "ocr is ready")),
        *(pytest.param(stage, marks=pytest.mark.long) for stage in ("PROCESSING", "stopping")),
    ],
)
def test_ctrl_c_leaves_nothing(demo: Demo, stage: str) -> None:
    """Ctrl-C at any stage ends it without a stack trace, and nothing stays behind."""
    demo.wait_for(stage)
    demo.interrupt()
    assert demo.ends() != 0 or stage == "stopping"
    assert "Traceback" not in demo.text
    demo.left_nothing()


def test_make_passes_a_stop_on(demo: Demo) -> None:
    """SIGTERM to make, as a supervisor sends it, stops the demo in order too."""
    demo.wait_for("bus is ready")
    demo.process.terminate()
    assert demo.ends() != 0
    demo.left_nothing()
