"""The rights of the runner of packs, its users, and the remains of a killed runner."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from platform_service.packs.privileges import NEEDED, missing
from platform_service.packs.processes import RunProcesses
from platform_service.packs.run import hand_over, remove_abandoned, run_folder
from tests.jobs import ROOT

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="packs run on Linux only")
AS_ROOT = not missing()


_RIGHTS = """
from pathlib import Path
from platform_service.packs import privileges

privileges.give_up_others()
print(Path("/proc/self/status").read_text())
"""


@pytest.mark.skipif(not AS_ROOT, reason="needs root")
def test_the_runner_keeps_six_rights_of_root() -> None:
    """It starts again without the others, also without those that a program can take over from its parent."""
    done = subprocess.run([sys.executable, "-c", _RIGHTS], cwd=ROOT, capture_output=True, text=True, check=True)
    rights = dict(line.split(":\t") for line in done.stdout.splitlines() if line.startswith("Cap"))
    kept = f"{sum(1 << number for number in NEEDED.values()):016x}"
    assert [rights[name] for name in ("CapEff", "CapPrm", "CapBnd", "CapInh")] == [kept, kept, kept, "0" * 16]


_SHARED_USER = """
import sys
from pathlib import Path
from tests.platform_service.pack_runs import Runner

runner = Runner(Path(sys.argv[1]))
runner.run_program("import pathlib; print(pathlib.Path('/proc/self/status').read_text())")
print(runner.log())
"""


@pytest.mark.skipif(not AS_ROOT, reason="needs root")
def test_a_runner_that_cannot_change_the_user_gives_its_program_no_other_right(tmp_path: Path) -> None:
    lowered = ["setpriv", "--bounding-set", "-setuid", sys.executable, "-c", _SHARED_USER, str(tmp_path)]
    done = subprocess.run(lowered, cwd=ROOT, capture_output=True, text=True, check=True)
    assert "Uid:\t0\t" in done.stdout
    assert f"CapEff:\t{0:016x}\n" in done.stdout


_READS = """
import sys
from pathlib import Path
from platform_service.packs.step import set_dumpable
from tests.platform_service.pack_runs import Runner

READ = '''
import ctypes, os
from pathlib import Path

libc = ctypes.CDLL(None)
PTRACE_SEIZE = 0x4206
try:
    Path(f"/proc/{os.getppid()}/environ").read_bytes()
    print("reads the runner")
except PermissionError:
    print("reads nothing")
print("traces the runner" if libc.ptrace(PTRACE_SEIZE, os.getppid(), 0, 0) == 0 else "traces nothing")
'''
for attempt, dumpable in enumerate(map(int, sys.argv[2:]), 1):
    set_dumpable(dumpable)
    runner = Runner(Path(sys.argv[1]))
    runner.run_program(READ, attempt=attempt)
    print(*(line for line in runner.log(attempt).splitlines() if line.startswith(("reads", "traces"))), sep=", ")
"""


@pytest.mark.skipif(not AS_ROOT, reason="needs root")
@pytest.mark.parametrize(
    ("lost", "dumpable", "found"),
    [
        ("-setuid", [1], ["reads nothing, traces nothing"]),
        ("-all", [1, 0], ["reads the runner, traces the runner", "reads nothing, traces nothing"]),
    ],
)
def test_a_program_of_the_same_user_reads_only_a_dumpable_runner_without_rights(
    lost: str, dumpable: list[int], found: list[str], tmp_path: Path
) -> None:
    """A runner with a right has more than its program, which is enough; one without needs PR_SET_DUMPABLE."""
    started = ["setpriv", "--bounding-set", lost, "--inh-caps", "-all", sys.executable, "-c", _READS, str(tmp_path)]
    done = subprocess.run([*started, *map(str, dumpable)], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == found


_KILLED = """
import os, signal, subprocess
from platform_service.packs.run import hand_over, run_folder

with run_folder() as folder:
    hand_over(folder)
    if folder.user is not None:
        subprocess.Popen(["sleep", "60"], user=folder.user, stdout=subprocess.DEVNULL)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_next_runner_removes_what_a_killed_one_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its folder and its processes; the folder of a live runner stays, and a link is not followed."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    environ = {**os.environ, "TMPDIR": str(tmp_path)}
    assert subprocess.run([sys.executable, "-c", _KILLED], env=environ, cwd=ROOT, check=False).returncode == -9
    [left] = tmp_path.iterdir()
    user = (left / "work").stat().st_uid
    with run_folder() as live:
        foreign = tmp_path / "lucius-run-foreign"
        foreign.symlink_to(live.path)
        remove_abandoned()
        assert set(tmp_path.iterdir()) == {live.path, foreign}
        if AS_ROOT:
            assert RunProcesses(user, 0).usage().processes == 0
        foreign.unlink()
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(not AS_ROOT, reason="needs root")
@pytest.mark.parametrize("name", ["pack", "work"])
def test_a_run_cannot_read_the_files_of_another(name: str) -> None:
    """Two runners can share a folder of temporary files."""
    with run_folder() as own, run_folder() as other:
        for folder in (own, other):
            (folder.pack / "main.py").write_text("")
            (folder.work / "inputs.json").write_text("{}")
            hand_over(folder)
        assert own.user is not None

        def listed(path: Path) -> int:
            words = ["ls", str(path)]
            return subprocess.run(words, user=own.user, group=own.user, extra_groups=[], check=False).returncode

        assert listed(own.path / name) == 0
        assert listed(other.path / name) != 0
