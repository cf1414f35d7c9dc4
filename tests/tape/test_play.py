"""A tape that was recorded on a real stack is played: unchanged, under changed protocols, and by other means."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import io
import json
import re
import shlex
import shutil
import warnings
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from lucius_verify.bundle import FORMAT
from lucius_verify.tarball import FILES, MANIFEST, write
from tape import command
from tape.player import Player, Report
from tape.recording import TapeError, read_histories, record
from tape.world import World
from tests.jobs import ROOT
from tests.tape.record import RECORDED


def packed(path: Path, **changed: bytes) -> Path:
    """The recorded tape as a bundle; `changed` are the contents of files in place of the recorded ones."""
    folder = path.with_suffix("")
    folder.mkdir()
    content = dict.fromkeys(FILES, b"")
    for name in ("jobs.jsonl", "history.jsonl"):
        content[name] = changed.get(name.partition(".")[0], (RECORDED / name).read_bytes())
    files = {name: {"sha256": sha256(each).hexdigest(), "bytes": len(each)} for name, each in content.items()}
    window = {"tenant": "tenant_a", "since": "2026-01-01T00:00:00Z", "until": "2027-01-01T00:00:00Z"}
    manifest = {"format": FORMAT, **window, "content": "included", "totals": {}, "files": files}
    content = {MANIFEST: json.dumps(manifest).encode(), **content}
    for name, each in content.items():
        (folder / name).write_bytes(each)
    write(path, ((name, folder / name) for name in content))
    return path


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    return packed(tmp_path / "b.tar.gz")


@pytest.fixture
def protocols(tmp_path: Path) -> Path:
    """A copy of the protocols, to change."""
    shutil.copytree(ROOT / "protocols", tmp_path / "protocols")
    return tmp_path / "protocols"


def change(protocols: Path, name: str, act: Callable[[dict[str, Any]], Any]) -> None:
    path = protocols / f"{name}.json"
    definition = json.loads(path.read_text())
    act(definition)
    path.write_text(json.dumps(definition | {"version": 2}))


def played(bundle: Path, protocols: Path, unknown: str = "fail") -> Report:
    return asyncio.run(Player(record(read_histories(bundle)), ROOT, protocols, unknown=unknown).play())


def run(*words: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of the command, in this process."""
    parser, out, err = argparse.ArgumentParser(), io.StringIO(), io.StringIO()
    command.add_arguments(parser)
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), warnings.catch_warnings():
        code = command.run(parser.parse_args(["play", *words]))
    return code, out.getvalue(), err.getvalue()


def test_the_same_app_makes_the_same_histories(bundle: Path) -> None:
    """Jobs that succeed, fail, are retried, paused, cancelled, redriven and wait for another; exit code 0."""
    code, shown, error = run(str(bundle))
    assert (code, error) == (0, "")
    assert shown.splitlines()[0].startswith("played 8 of 8 jobs")
    assert "equal 8, different 0, events compared 47\n" in shown


def test_a_changed_protocol_is_the_first_difference(bundle: Path, protocols: Path) -> None:
    """One attempt instead of three: the retried job fails, with both sides and the events before; exit code 1."""
    change(protocols, "ocr", lambda definition: definition["steps"][0].update(max_attempts=1))
    code, shown, error = run(str(bundle), "--protocols", str(protocols))
    assert (code, error) == (1, "")
    assert "OCR: 7 jobs of version 1 played with version 2" in shown
    first = shown.partition("first difference")[2].splitlines()
    assert first[2:5] == [
        "  same      ACK ocr attempt 1: INITIATED -> PROCESSING; QUEUED -> IN_PROGRESS, by reply",
        "  recorded  RESULT ocr attempt 1: PROCESSING -> FAILED_RETRY; IN_PROGRESS -> IN_PROGRESS, by reply",
        "  played    RESULT ocr attempt 1: PROCESSING -> FAILED_FINAL; IN_PROGRESS -> FAILED_FINAL, by reply",
    ]
    _, text, _ = run(str(bundle), "--protocols", str(protocols), "--json")
    plain = json.loads(text)
    assert (plain["different"], plain["first"]["request_type"]) == ({"OCR": 2}, "OCR")


@pytest.mark.parametrize(
    ("unknown", "played_event"),
    [
        ("fail", "RESULT sis attempt 1: PROCESSING -> FAILED_FINAL; IN_PROGRESS -> FAILED_FINAL, by reply"),
        ("succeed", "RESULT sis attempt 1: PROCESSING -> SUCCEEDED; IN_PROGRESS -> SUCCEEDED, by reply"),
    ],
)
def test_a_step_that_the_tape_does_not_have(bundle: Path, protocols: Path, unknown: str, played_event: str) -> None:
    """Its directive is answered as `--unknown` defines, and counted."""
    added = {"step_id": "sis", "step_type": "SIS", "service": "sis"}
    change(protocols, "ocr_embedding", lambda definition: definition["steps"].append(added))
    report = played(bundle, protocols, unknown)
    assert (report.unknown, dict(report.different)) == (1, {"OCR_EMBEDDING": 1})
    assert report.first is not None
    assert report.first.recorded is not None
    assert report.first.recorded.startswith("RESULT embedding attempt 1: PROCESSING -> SUCCEEDED")


def test_a_refused_request_is_a_difference(bundle: Path, protocols: Path) -> None:
    """A step without its key in the payload schema: the job is not created, and the reason is shown."""
    (protocols / "steps" / "ocr.schema.json").write_text('{"type": "object", "required": ["language"]}')
    change(protocols, "ocr", lambda definition: None)
    report = played(bundle, protocols)
    assert report.first is not None
    assert report.first.played == "refused: RequestInvalid: payload.ocr 'language' is a required property"


def with_replay() -> dict[str, bytes]:
    """The recorded files with a replay of the last job, an hour later."""
    jobs, history = ((RECORDED / name).read_text() for name in ("jobs.jsonl", "history.jsonl"))
    original = json.loads(jobs.splitlines()[-1])
    assert original["job"]["status"] == "SUCCEEDED"
    own = [each for each in history.splitlines() if json.loads(each)["job_id"] == original["job_id"]]
    later = re.compile(r"\d{4}-\d\d-\d\dT[0-9:.]+\+00:00")

    def again(text: str) -> str:
        text = text.replace(original["job_id"], "job_zz")
        return later.sub(lambda found: (datetime.fromisoformat(found[0]) + timedelta(hours=1)).isoformat(), text)

    replay = json.loads(again(json.dumps(original)))
    replay["job"] |= {"replay_of": original["job_id"], "replay_mode": "compare", "idempotency_hash": "replay"}
    lines = (f"{jobs}{json.dumps(replay)}\n", f"{history}{''.join(f'{again(each)}{chr(10)}' for each in own)}")
    return {name: each.encode() for name, each in zip(("jobs", "history"), lines, strict=True)}


def test_a_replay_is_played_as_one(tmp_path: Path) -> None:
    """With the plan of its original."""
    report = played(packed(tmp_path / "b.tar.gz", **with_replay()), ROOT / "protocols")
    assert (report.jobs, report.first, report.not_played.total()) == (9, None, 0)


@pytest.mark.parametrize("is_in_bundle", [True, False])
def test_jobs_that_need_one_that_is_not_played(tmp_path: Path, is_in_bundle: bool) -> None:
    """A redrive of it, and a job that waits for the redrive, are counted. They are no difference."""
    rows = [json.loads(each) for each in (RECORDED / "jobs.jsonl").read_text().splitlines()]
    history = (RECORDED / "history.jsonl").read_text().splitlines()
    [old] = [each["job"]["redrive_of"] for each in rows if each["job"].get("redrive_of")]
    expected = {"the original or a dependency is not in the bundle or not played": 2}
    if is_in_bundle:
        [job] = [each["job"] for each in rows if each["job_id"] == old]
        # a quota never admitted it
        job["staged_at"] = job["created_at"]
        expected["the job waited for a quota until it ended"] = 1
    else:
        rows = [each for each in rows if each["job_id"] != old]
        history = [each for each in history if json.loads(each)["job_id"] != old]
    lines = ("".join(f"{each}\n" for each in part) for part in (map(json.dumps, rows), history))
    changed = {name: each.encode() for name, each in zip(("jobs", "history"), lines, strict=True)}
    report = played(packed(tmp_path / "b.tar.gz", **changed), ROOT / "protocols")
    assert (dict(report.not_played), report.first) == (expected, None)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"jobs": b"{"}, "cannot read the audit bundle"),
        ({"jobs": b"", "history": b""}, "has no jobs"),
        ({"history": (RECORDED / "history.jsonl").read_bytes().replace(b'"data":', b'"other":')}, "--with-content"),
    ],
)
def test_bad_tapes(tmp_path: Path, changed: dict[str, bytes], message: str) -> None:
    """One line, exit code 2; a bundle that withholds content cannot be played."""
    with pytest.raises(TapeError, match=message):
        record(read_histories(packed(tmp_path / "b.tar.gz", **changed)))
    code, _, error = run(str(tmp_path / "none.tar.gz"))
    assert (code, len(error.splitlines())) == (2, 1)


def test_the_commands_of_the_guide(bundle: Path, tmp_path: Path, protocols: Path) -> None:
    """Those of docs/guides/audit.md, with protocols that retry more often, which changes no recorded job."""
    change(protocols, "ocr", lambda definition: definition["steps"][0].update(max_attempts=5))
    protocols.rename(tmp_path / "new")
    guide = (ROOT / "docs" / "guides" / "audit.md").read_text(encoding="utf-8")
    lines = guide.partition("<!-- tested: tape -->\n```sh\n")[2].partition("```")[0].splitlines()
    assert len(lines) == 3
    with contextlib.chdir(tmp_path):
        for line in lines:
            assert shlex.split(line)[:3] == ["lucius", "tape", "play"]
            assert run(*shlex.split(line)[3:])[0] == 0


def test_another_checkout_plays_the_tape_itself(
    bundle: Path, tmp_path: Path, protocols: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """`--app` runs the player of that checkout, with its protocols; a folder without one is an error.

    Its process imports the whole app, which takes 3 CPU seconds.
    """
    shutil.copytree(ROOT / "tape", tmp_path / "app" / "tape")
    for path in ("shared", "orchestrations", "packages", "infra"):
        (tmp_path / "app" / path).symlink_to(ROOT / path)
    change(protocols, "ocr", lambda definition: definition["steps"][0].update(max_attempts=1))
    protocols.rename(tmp_path / "app" / "protocols")
    assert run(str(bundle), "--app", str(tmp_path / "app"))[0] == 1
    assert "OCR: 7 jobs of version 1 played with version 2" in capfd.readouterr().out
    assert run(str(bundle), "--app", str(tmp_path))[0] == 2


def test_a_play_sweeps_sixty_times_for_a_job_that_does_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    sweeps = []

    async def sweep(context: object, orchestrations: object) -> None:
        sweeps.append(context)

    async def has_living_jobs() -> bool:
        return True

    monkeypatch.setattr("tape.world.sweep", sweep)

    async def play() -> None:
        world = World(datetime(2026, 1, 1, tzinfo=UTC), ROOT, ROOT / "protocols", None)
        world.context = None  # type: ignore[assignment]  # no job reads it
        await world.run(has_living_jobs)

    asyncio.run(play())
    assert len(sweeps) == 60
