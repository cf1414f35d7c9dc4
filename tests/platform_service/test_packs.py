"""Runs of packs: inputs of a program, its isolation, its limits, its log and its artifacts."""

from __future__ import annotations

import json
import os
import sys
import threading
from dataclasses import replace
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from lucius_service.append_blob import AppendBlob
from lucius_service.errors import STORAGE_UNAVAILABLE, FailedFinal, FailedRetry
from lucius_service.pack import plan_hash, read_pack
from lucius_service.settings import SettingsError
from lucius_service.testing import MemoryAppendBlob, MemoryWorkspace
from platform_service.packs import run_log
from platform_service.packs.pack_folders import INCLUDED
from platform_service.packs.privileges import missing
from platform_service.packs.processes import RunProcesses
from platform_service.packs.run_log import RunLog
from platform_service.packs.step import build, set_dumpable
from tests.platform_service.pack_runs import FOLDER, INPUT, LIMITS, Runner

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="packs run on Linux only")
AS_ROOT = not missing()


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    return Runner(tmp_path)


def refused(runner: Runner, payload: dict[str, Any]) -> str:
    with pytest.raises(FailedFinal) as caught:
        runner.run(payload)
    assert caught.value.code in runner.log(), "the reader of the log learns why"
    return caught.value.code


def test_the_report_over_the_text_of_an_ocr_job(runner: Runner) -> None:
    lines = [{"text": "Total 12.00", "confidence": 0.6}, {"text": "Thank you", "confidence": 0.99}]
    pages = [{"page": 1, "text": "Total 12.00\nThank you", "lines": lines}, {"page": 2, "text": "", "lines": []}]
    runner.workspace.blobs[INPUT] = json.dumps({"format": "lucius.text/1", "pages": pages}).encode()
    digest = plan_hash(read_pack(INCLUDED / "quality-report"))
    outcome = runner.run({"packId": "quality-report", "packVersion": "1.0.0", "planHash": digest})
    report = json.loads(runner.artifacts["report.json"])
    assert (report["doubtful_lines"], report["empty_pages"]) == (1, [2])
    assert "| 1 | 21 | 2 |" in runner.artifacts["report.md"].decode()
    assert outcome.metrics["artifacts"] == 2
    result = json.loads(runner.workspace.blobs[outcome.result_ref])
    assert [each["name"] for each in result["artifacts"]] == ["report.json", "report.md"]
    assert "2 pages, 1 empty, 1 doubtful lines" in runner.log()


def test_two_runs_that_write_the_same_files_have_one_result(runner: Runner) -> None:
    """A replay is compared by the digest of the result: only the written files count, not the job or the attempt."""

    def result(text: str, **run: Any) -> bytes:
        outcome = runner.run_program(
            """
            import json, os
            from pathlib import Path

            text = json.loads(Path(os.environ["LUCIUS_INPUTS"]).read_text())["text"]
            Path(os.environ["LUCIUS_ARTIFACTS"], "text.txt").write_text(text)
            """,
            text=text,
            **run,
        )
        return runner.workspace.blobs[outcome.result_ref]

    first = result("one")
    assert result("one", job_id="job_2", attempt=2) == first
    assert result("two", job_id="job_2", attempt=3) != first


def test_a_program_gets_its_inputs_and_nothing_of_the_runner(
    runner: Runner, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """No secret in its environment, none in /proc, no way into its pack, no other user's rights."""
    monkeypatch.setenv("LUCIUS_SERVICEBUS_CONNECTION", "s3cret-connection")
    request.addfinalizer(lambda: set_dumpable(1))
    build({}).prepare()
    runner.run_program(
        """
        import json, os, pathlib
        from pathlib import Path

        def tries(act):
            try:
                return repr(act())
            except OSError as error:
                return type(error).__name__

        environ = tries(lambda: Path(f"/proc/{os.getppid()}/environ").read_bytes())
        pack = Path(__file__).parent
        print(json.dumps({
            "inputs": json.loads(Path(os.environ["LUCIUS_INPUTS"]).read_text()),
            "input": Path(os.environ["LUCIUS_INPUT"]).read_text(),
            "variables": sorted(os.environ),
            "secret": "s3cret" in str(dict(os.environ)) + environ,
            "environ": environ,
            "memory": tries(lambda: open(f"/proc/{os.getppid()}/mem", "rb").read(1)),
            "pack": tries(lambda: (pack / "main.py").write_text("")),
            "runs": tries(lambda: os.listdir(pack.parent)),
            "user": os.getuid(),
            "groups": os.getgroups(),
            "kill": tries(lambda: os.kill(os.getppid(), 0)),
        }))
        """,
        colour="blue",
    )
    [line] = [line for line in runner.log().splitlines() if line.startswith("{")]
    found = json.loads(line)
    assert (found["inputs"], found["input"]) == ({"colour": "blue"}, "a document")
    assert {each for each in found["variables"] if each.startswith("LUCIUS_")} == {
        *("LUCIUS_RUN_ID", "LUCIUS_ATTEMPT", "LUCIUS_INPUTS", "LUCIUS_INPUT", "LUCIUS_ARTIFACTS")
    }
    assert not found["secret"]
    assert (found["environ"], found["memory"]) == ("PermissionError", "PermissionError")
    if AS_ROOT:
        assert found["pack"] == found["runs"] == found["kill"] == "PermissionError"
        assert found["user"] >= 30_000
        assert found["groups"] in ([], [found["user"]])


def test_what_is_not_the_named_pack_does_not_run(runner: Runner) -> None:
    """Unknown id, unknown version, another hash, a pack that changed since: each with its code."""
    marker = runner.folder / "ran"
    runner.folder.chmod(0o777)
    digest = runner.run_program("print('first')") and plan_hash(read_pack(runner.folder / "test"))
    named = {"packId": "test", "packVersion": "1.0.0", "planHash": digest}
    assert refused(runner, {**named, "packId": "tset"}) == "PACK_NOT_FOUND"
    assert refused(runner, {**named, "packVersion": "1.0.1"}) == "PACK_NOT_FOUND"
    assert refused(runner, {**named, "planHash": f"sha256:{'0' * 64}"}) == "PLAN_HASH_MISMATCH"
    (runner.folder / "test" / "extra.py").write_text(f"open({str(marker)!r}, 'w')")
    assert refused(runner, named) == "PLAN_HASH_MISMATCH"
    (runner.folder / "test" / "link").symlink_to("/etc/passwd")
    assert refused(runner, named) == "PACK_INVALID"
    with pytest.raises(FailedFinal, match="PAYLOAD_INVALID"):
        runner.run({**named, "heartbeatCadence": 5})
    assert not marker.exists()


def test_a_program_that_forks_ends_with_all_that_it_started(runner: Runner) -> None:
    """As root the kernel refuses the next process, and no child outlives its run, in any session."""
    leave = "os.setsid()" if AS_ROOT else "pass"
    program = f"""
        import os, time
        print("user", os.getuid(), flush=True)
        try:
            while True:
                if os.fork() == 0:
                    {leave}
                    time.sleep(600)
        except OSError as error:
            print("refused", error.errno)
        """
    if not AS_ROOT:
        with pytest.raises(FailedFinal, match="LIMIT_EXCEEDED"):
            runner.run_program(program)
        return
    runner.run_program(program)
    user = int(runner.log().split("user ")[1].split()[0])
    assert "refused 11" in runner.log()
    assert RunProcesses(user, 0).usage().processes == 0


_SLEEP = "\nimport signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\ntime.sleep(60)"


@pytest.mark.parametrize(
    ("program", "code", "why"),
    [
        ("kept = [bytearray(2**20) for _ in range(1000)]", "PACK_FAILED", "MemoryError"),
        (
            "import os\nfor _ in range(5):\n if not os.fork():\n  kept = b'x' * (60 * 2**20)\n  break",
            "LIMIT_EXCEEDED",
            "of memory",
        ),
        ("for n in range(20): open(f'{n}', 'wb').write(b'x' * 2**20)", "LIMIT_EXCEEDED", "of disk"),
        (
            """
            import tempfile
            kept = [tempfile.TemporaryFile() for _ in range(2)]
            for each in kept:
                each.write(b"x" * 6 * 2**20)
            """,
            "LIMIT_EXCEEDED",
            "of disk",
        ),
        (
            "import os\nprint(os.getcwd(), flush=True)\nfor _ in range(1100):\n os.mkdir('d')\n os.chdir('d')",
            "LIMIT_EXCEEDED",
            "folders within folders",
        ),
        ("open('one', 'wb').truncate(2**30)", "PACK_FAILED", "File too large"),
        pytest.param(
            """
            import ctypes
            libc = ctypes.CDLL(None)
            libc.shmat.restype, libc.shmdt.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
            for _ in range(5):
                place = libc.shmat(libc.shmget(0, 60 * 2**20, 0o1600), None, 0)
                ctypes.memset(place, 1, 60 * 2**20)
                libc.shmdt(place)
            """,
            "LIMIT_EXCEEDED",
            "of memory",
            marks=pytest.mark.skipif(not AS_ROOT, reason="needs root"),
        ),
        ("while True: pass", "LIMIT_EXCEEDED", "CPU"),
        ("", "LIMIT_EXCEEDED", "longer than 2 s"),
    ],
    ids=[
        "memory",
        "memory of all",
        "disk",
        "deleted files",
        "deep",
        "one file",
        "memory without a process",
        "cpu",
        "time",
    ],
)
def test_a_limit_ends_the_run(runner: Runner, program: str, code: str, why: str) -> None:
    runner.limits = replace(LIMITS, seconds=2 if "longer" in why else 60, cpu_s=1)
    with pytest.raises(FailedFinal) as caught:
        runner.run_program(dedent(program) + ("" if code == "PACK_FAILED" else _SLEEP))
    assert caught.value.code == code
    assert why in runner.log()
    assert not [line for line in runner.log().splitlines() if line.startswith("/") and Path(line).exists()]
    if AS_ROOT:
        left = [line.split()[7] for line in Path("/proc/sysvipc/shm").read_text().splitlines()[1:]]
        assert not [user for user in left if 30_000 <= int(user) < 60_000]


def test_a_long_log_is_cut(runner: Runner) -> None:
    """At the limit, with a note; the program continues, and the runner's own lines follow."""
    runner.run_program("line = 'x' * 1023\nfor _ in range(8 * 1024): print(line)\nopen('artifacts/done', 'w').close()")
    log = runner.log()
    assert log.count("x") == 2**20 // 1024 * 1023 + log.replace("x" * 1023, "").count("x")
    assert "[runner] the log ends here, at its maximum of 1048576 bytes\n" in log
    assert log.endswith("[runner] artifact done: 0 bytes\n")


@pytest.mark.parametrize(
    "program",
    [
        "import os\nos.makedirs('artifacts/sub')",
        "import os\nos.symlink('/etc/passwd', 'artifacts/users')",
        "import os\nos.mkfifo('artifacts/pipe')",
        "import socket\nsocket.socket(socket.AF_UNIX).bind('artifacts/socket')",
        "import os\nopen('a', 'w').close()\nos.link('a', 'artifacts/b')",
        "open('artifacts/a b', 'w').close()",
        "import shutil, os\nshutil.rmtree('artifacts')\nos.symlink('/etc', 'artifacts')",
        "for n in range(101): open(f'artifacts/{n}', 'w').close()",
    ],
    ids=["folder", "link", "pipe", "socket", "second name", "blank", "other folder", "too many"],
)
def test_what_is_no_artifact_fails_the_run(runner: Runner, program: str) -> None:
    """Nothing is stored then, so that no file of the runner's machine leaves it."""
    with pytest.raises(FailedFinal, match="ARTIFACT_INVALID"):
        runner.run_program(f"open('artifacts/good', 'w').close()\n{program}")
    assert runner.artifacts == {}


def test_the_exit_code_decides(runner: Runner) -> None:
    """1 fails the job, 75 requests another attempt; the files written until then are stored, also those elsewhere."""
    write = "import sys\nopen('artifacts/partial', 'w').write('half')\n"
    with pytest.raises(FailedFinal, match="PACK_FAILED"):
        runner.run_program(f"{write}sys.exit(1)")
    assert runner.artifacts == {"partial": b"half"}
    with pytest.raises(FailedRetry, match="PACK_FAILED"):
        runner.run_program(f"{write}sys.exit(75)", attempt=2)
    assert "[runner] attempt 2 follows attempt 1\n" in runner.log(2)


def test_a_cancelled_run_ends_at_once(runner: Runner) -> None:
    runner.watch.cancelled = True
    with pytest.raises(FailedRetry, match="CANCELLED"):
        runner.run_program(_SLEEP)
    assert "FAILED_RETRY: CANCELLED" in runner.log()


def test_another_tenants_run_is_no_input(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    foreign = "memory://account/runs/other/job_9/1/report.json"
    runner.workspace.blobs[foreign] = b"theirs"
    monkeypatch.setattr("tests.platform_service.pack_runs.INPUT", foreign)
    with pytest.raises(FailedFinal, match="REF_UNSUPPORTED"):
        runner.run_program("print('read')")


def test_an_older_attempt_cannot_write_once_a_newer_one_has_begun() -> None:
    """The newer one closes its log first, so that a reader that has moved on misses nothing."""
    workspace = MemoryWorkspace({})
    old = RunLog.open(workspace, FOLDER, 1, 1000)
    old.note("first")
    old.flush()
    new = RunLog.open(workspace, FOLDER, 3, 1000)
    old.note("too late")
    old.flush()
    new.flush()
    assert old.overtaken
    assert workspace.blobs[f"{FOLDER}/1.log"].decode().splitlines() == [
        *("[runner] first", "", "[runner] attempt 3 begins, on this runner or another")
    ]
    assert workspace.blobs[f"{FOLDER}/3.log"] == b"[runner] attempt 3 follows attempt 1\n"
    again = RunLog.open(workspace, FOLDER, 3, 1000)
    again.flush()
    new.note("too late")
    new.flush()
    assert new.overtaken
    assert b"attempt 3 starts again: its directive was delivered again" in workspace.blobs[f"{FOLDER}/3.log"]


def test_a_log_waits_for_storage_and_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """While storage is away, the program waits when its pipe is full; afterwards each byte is there once."""
    monkeypatch.setattr(run_log, "EVERY_S", 0.02)
    monkeypatch.setattr(run_log, "MAX_WAITING", 100_000)
    away = threading.Event()
    away.set()

    class Away(MemoryAppendBlob):
        def append(self, data: bytes) -> None:
            if away.is_set():
                raise FailedRetry(STORAGE_UNAVAILABLE, "away")
            super().append(data)

    class Store(MemoryWorkspace):
        def append_blob(self, uri: str) -> AppendBlob:
            return Away(self.blobs, uri)

    workspace = Store({})
    log = RunLog.open(workspace, FOLDER, 1, 10**7)
    reader, writer = os.pipe()
    log.start(reader)
    output = b"".join(b"%d\n" % number for number in range(200_000))
    writing = threading.Thread(target=lambda: (os.write(writer, output), os.close(writer)), daemon=True)
    writing.start()
    writing.join(0.3)
    assert writing.is_alive(), "the program must not run ahead of a log that cannot be stored"
    away.clear()
    writing.join()
    log.finish(10)
    log.flush()
    os.close(reader)
    assert workspace.blobs[f"{FOLDER}/1.log"] == output


def test_a_runner_has_one_run_at_a_time() -> None:
    with pytest.raises(SettingsError, match="LUCIUS_SERVICE_WORKERS"):
        build({"LUCIUS_SERVICE_WORKERS": "2"})
    with pytest.raises(SettingsError, match="LUCIUS_PACKS_PATH"):
        build({"LUCIUS_PACKS_PATH": "/nowhere"})
    with pytest.raises(SettingsError, match="LUCIUS_PACK_PYTHON"):
        build({"LUCIUS_PACK_PYTHON": "/nowhere"})


def test_the_heartbeats_are_those_of_the_request() -> None:
    step = build({})
    assert step.heartbeat_s({"heartbeatCadence": 15}) == 15
    assert [step.heartbeat_s(payload) for payload in ({"heartbeatCadence": 5}, {"heartbeatCadence": "15"}, None)] == [
        *(None, None, None)
    ]
