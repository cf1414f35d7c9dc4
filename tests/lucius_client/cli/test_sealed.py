"""`lucius job replay --sealed`: recorded steps run again over local files, without network."""

from __future__ import annotations

import json
import socket
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from lucius_service.errors import FailedFinal
from lucius_service.sealed import LocalWorkspace
from lucius_service.step import Outcome, Task
from tests.lucius_client.cli.command import run_main
from tests.lucius_verify.forging import write
from tests.lucius_verify.mutations import IMPOSSIBLE, fresh
from tests.lucius_verify.stories import Story, failed_and_redriven
from tests.lucius_verify.walks import Document

ACCOUNT = "https://account.blob.core.windows.net"
TEXT = b"a lease"
#: the result for `TEXT`, by step
MADE = {"ocr": b"A LEASE", "embedding": b"ESAEL A", "sis": b"the answer"}


class Upper:
    """Writes its input in capitals."""

    step_type = "OCR"

    def prepare(self) -> None: ...

    def validate(self, payload: Any) -> Any:
        return payload

    def execute(self, task: Task) -> Outcome:
        return Outcome(task.write("made.txt", self.made(task.read_input().data), "text/plain"))

    def made(self, data: bytes) -> bytes:
        return data.upper()


class Reverse(Upper):
    """Writes its input backwards."""

    step_type = "EMBEDDING"

    def made(self, data: bytes) -> bytes:
        return data[::-1]


class Answer(Upper):
    """Writes the same for each input."""

    step_type = "SIS"

    def made(self, data: bytes) -> bytes:
        return b"the answer"


class AnotherAnswer(Answer):
    """Is a later release."""

    def made(self, data: bytes) -> bytes:
        return b"a better answer"


class Broken(Answer):
    """Has a bug."""

    def made(self, data: bytes) -> bytes:
        raise KeyError("answer")


def digest(data: bytes) -> str:
    return f"sha256:{sha256(data).hexdigest()}"


def recorded(steps: int = len(MADE)) -> Document:
    """Returns a job of three steps with this number of RESULTs, with the digests of `MADE`."""
    story, read = Story(10, "job_a", calm=True), TEXT
    for step_id, made in [*MADE.items()][:steps]:
        story.sent(1, step_id).replied(1, "ACK", step_id)
        step = story.record.step(step_id)
        assert step is not None
        assert step.workspace_ref is not None
        digests = {"result_ref": digest(made)}
        if step_id == "sis":
            digests["output_ref"] = digest(made)
        result_ref = {"uri": f"{step.workspace_ref['uri'].rstrip('/')}/made.txt"}
        read_digests = {"input_ref": digest(read)}
        story.replied(5, "RESULT", step_id, result_ref=result_ref, digests=digests, input_digests=read_digests)
        read = made
    assert (story.record.job.status == "SUCCEEDED") == (steps == len(MADE))
    return story.document()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The bundle, and the document of the job as a local file."""
    (tmp_path / "documents").mkdir()
    (tmp_path / "documents" / "lease.pdf").write_bytes(TEXT)
    write(tmp_path / "b.tar.gz", [recorded()])
    return tmp_path


def replayed(folder: Path, *classes: str, artifacts: bool = True) -> tuple[int, list[str], list[str]]:
    """Exit code, outcomes and reasons."""
    words = [word for each in classes for word in ("--step", f"{__name__}:{each}")]
    words += ["--artifacts", str(folder)] if artifacts else []
    done = run_main("job", "replay", "job_a", "--sealed", "--bundle", str(folder / "b.tar.gz"), *words, "--json")
    assert done.stderr == ""
    steps = json.loads(done.stdout)["steps"]
    return done.returncode, [each["outcome"] for each in steps], [each["why"] for each in steps]


def test_equal_steps_are_the_same(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step reads the files that the step before it wrote; no connection is opened.

    Without steps the history is verified.
    """

    def refused(*_: object) -> None:
        raise AssertionError("it connects")

    monkeypatch.setattr(socket.socket, "connect", refused)
    assert replayed(folder, "Upper", "Reverse", "Answer")[:2] == (0, ["SAME"] * 3)
    assert replayed(folder, artifacts=False) == (0, [], [])
    words = ("job", "replay", "job_a", "--sealed", "--bundle", str(folder / "b.tar.gz"), "--artifacts", str(folder))
    shown = run_main(*words, *(word for each in ("Upper", "Reverse") for word in ("--step", f"{__name__}:{each}")))
    assert shown.returncode == 1
    assert "verified at levels 1, 2, 3" in shown.stdout
    assert "no --step has a class for SIS" in shown.stdout


def test_differences_are_apart_from_values_without_a_comparison(folder: Path) -> None:
    """Another release, a bug, a changed document, a missing one, and a step without its service: exit code 1."""
    assert replayed(folder, "Upper", "Reverse", "AnotherAnswer")[:2] == (1, ["SAME", "SAME", "DIFFERENT"])
    code, outcomes, reasons = replayed(folder, "Upper", "Reverse", "Broken")
    assert (code, outcomes[2], reasons[2]) == (1, "NOT_COMPARABLE", "KeyError: 'answer'")
    code, outcomes, reasons = replayed(folder, "Upper", "Reverse", "Answer", artifacts=False)
    assert outcomes == ["NOT_COMPARABLE"] * 3
    found = "FailedFinal: INPUT_NOT_FOUND: local file not found: documents/lease.pdf; name a folder that has the file"
    assert reasons[0] == found
    (folder / "documents" / "lease.pdf").write_bytes(b"another lease")
    assert replayed(folder, "Upper", "Reverse", "Answer")[:2] == (1, ["INPUT_CHANGED"] * 3)


def test_a_job_that_has_not_ended_has_the_reasons(folder: Path) -> None:
    """Its history was exported after the second step."""
    write(folder / "b.tar.gz", [recorded(2)])
    code, outcomes, reasons = replayed(folder, "Upper", "Answer")
    assert (code, outcomes) == (1, ["SAME", "NOT_COMPARABLE", "NOT_COMPARABLE"])
    assert reasons[1:] == [
        "no --step has a class for EMBEDDING; add the class with --step",
        "the step is PENDING in the history",
    ]


def test_a_step_of_a_broken_history_is_not_run(tmp_path: Path) -> None:
    """Exit code 2, as of a bundle that withholds content, another job, a class that cannot be made, and wrong words."""
    forged = IMPOSSIBLE["PENDING to SUCCEEDED"](fresh())
    assert forged is not None
    write(tmp_path / "b.tar.gz", [forged])
    assert replayed(tmp_path, "Broken") == (2, [], [])
    # its error message is a service's
    write(tmp_path / "b.tar.gz", [failed_and_redriven()[0]], with_content=False)
    bundle = ("--sealed", "--bundle", str(tmp_path / "b.tar.gz"))
    for words, message in (
        (("job_b", *bundle, "--step", f"{__name__}:Upper"), "export the bundle again with --with-content"),
        (("job_z", *bundle), "job job_z is not in this bundle"),
        (("job_b", *bundle, "--step", "nowhere:Step"), "--step nowhere:Step: ModuleNotFoundError"),
        (("job_a", "--sealed"), "--sealed needs --bundle"),
        (("job_a", "--reason", "why", *bundle[1:]), "need --sealed"),
        (("job_a",), "--reason is missing; give a reason, for example --reason 'a new engine'"),
    ):
        refused = run_main("job", "replay", *words)
        assert (refused.returncode, refused.stdout, len(refused.stderr.splitlines())) == (2, "", 1)
        assert message in refused.stderr


@pytest.mark.parametrize("name", ["../secret", "documents/%2e%2e/../../secret", "/etc/passwd", "", "documents", "a\0b"])
def test_a_reference_does_not_lead_out_of_the_folder(tmp_path: Path, name: str) -> None:
    """It is a stranger's; nor to another account."""
    (tmp_path / "files" / "documents").mkdir(parents=True)
    (tmp_path / "secret").write_bytes(b"secret")
    workspace = LocalWorkspace(ACCOUNT, tmp_path / "files")
    for uri in (f"{ACCOUNT}/{name}", f"https://else.example/{name}"):
        with pytest.raises(FailedFinal):
            workspace.read(uri)
