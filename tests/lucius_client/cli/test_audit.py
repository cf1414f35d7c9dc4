"""`lucius audit` and `lucius job verify`: exit codes, and exports from an API of canned responses."""

from __future__ import annotations

import errno
import fcntl
import json
import re
import shlex
import sys
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from lucius_client import Client
from lucius_verify import carried, command
from tests.document_commands import block
from tests.lucius_client.cli.command import run_main
from tests.lucius_client.samples import problem
from tests.lucius_client.stub_api import CannedResponse, serving
from tests.lucius_verify.forging import Signer, write
from tests.lucius_verify.stories import documents, logs, troubled
from tests.lucius_verify.walks import Document
from tests.running_stack import ROOT

SIGNER = Signer()
GUIDE = ROOT / "docs" / "guides" / "audit.md"
EXPORT = ("audit", "export", "--tenant", "tenant_a", "--since", "2026-01-27T00:00:00Z")


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("audit")
    (folder / "key.pem").write_bytes(SIGNER.pem)
    return write(folder / "b.tar.gz", documents(), logs=logs(), signed=SIGNER.sign(documents(), logs()))


def test_the_command_has_an_exit_code_for_each_verdict(bundle: Path, tmp_path: Path) -> None:
    """0: verified, 2: broken, or no file, 3: signed by a key that the user has not named; --json prints the report."""
    key = str(bundle.parent / "key.pem")
    verified = run_main("audit", "verify", str(bundle), "--key", key)
    assert (verified.returncode, len(verified.stdout.splitlines())) == (0, 5)
    assert run_main("audit", "verify", str(bundle)).returncode == 3
    assert run_main("audit", "verify", str(bundle), "--key", SIGNER.key_id).returncode == 0
    report = json.loads(run_main("audit", "verify", str(bundle), "--json").stdout)
    assert (report["verdict"], report["unnamed_keys"]) == ("unknown_key", [SIGNER.key_id])
    torn = tmp_path / "torn.tar.gz"
    torn.write_bytes(bundle.read_bytes()[:-9])
    refused = run_main("audit", "verify", str(torn), "--json")
    assert (refused.returncode, json.loads(refused.stdout)["verdict"]) == (2, "broken")
    for words in (("--key", "nowhere.pem"), ("--job", "job_z"), ("--head", "0" * 64)):
        wrong = run_main("audit", "verify", str(bundle), *words)
        assert (wrong.returncode, wrong.stdout, len(wrong.stderr.splitlines())) == (2, "", 1)


def test_one_job_of_a_bundle(bundle: Path) -> None:
    """`lucius job verify` is the same; its head may be compared with one that was noted."""
    head = troubled()["job"]["event_hash"]
    words = ("job", "verify", "--bundle", str(bundle), "--job-id", "job_a", "--key", SIGNER.key_id)
    verified = run_main(*words, "--head", head)
    assert (verified.returncode, "22 events executed again" in verified.stdout) == (0, True)
    other = run_main(*words, "--head", "0" * 64)
    assert (other.returncode, "the hash is not the given head" in other.stdout) == (2, True)


def test_without_the_rules_level_3_is_not_checked(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installation without `shared/core` verifies levels 1 and 2."""
    monkeypatch.setattr(carried, "_PLACES", ())
    done = run_main("audit", "verify", str(bundle), "--key", SIGNER.key_id)
    assert done.returncode == 0
    assert re.search(r"3 possible +not checked +this installation does not have the app's rules", done.stdout)


# exports


def job_line(document: Document) -> dict[str, Any]:
    job = document["job"]
    links = dict.fromkeys(("self", "steps", "events", "cancel"), "/")
    fields = {"jobId": job["job_id"], "current_step_id": None, "seq": 1, "archived_at": None, "links": links}
    kept = ("tenant_id", "request_type", "status", "labels", "created_at", "completed_at", "error_code")
    return fields | {name: job.get(name) for name in kept}


class Api:
    """An API with these jobs; it signs heads if it has a signer."""

    def __init__(self, jobs: list[Document], signer: Signer | None = None) -> None:
        self.jobs = {each["job"]["job_id"]: each for each in jobs}
        self.signed = signer.sign(jobs) if signer is not None else None
        #: paths, in order
        self.asked: list[str] = []
        #: error of a request for another job
        self.absent = CannedResponse(404, problem(404, "JOB_NOT_FOUND"))
        #: number of jobs after which the user presses Ctrl-C
        self.interrupted_after: int | None = None
        #: time of the first head
        self.earliest = ""
        #: error of a request for heads
        self.refusal: CannedResponse | None = None

    def respond(self, path: str, query: Mapping[str, Any]) -> CannedResponse:
        self.asked.append(path)
        kind, _, name = path.removeprefix("/v1/").partition("/")
        if path.endswith("/audit"):
            job_id = name.removesuffix("/audit")
            if self.interrupted_after == sum(each.endswith("/audit") for each in self.asked[:-1]):
                raise KeyboardInterrupt
            if job_id not in self.jobs:
                return self.absent
            return CannedResponse(body=self.jobs[job_id])
        if kind == "audit":
            return self._audit(name, query)
        return CannedResponse(
            body={kind: list(map(job_line, self.jobs.values())) if kind == "jobs" else [], "next": None}
        )

    def _audit(self, name: str, query: Mapping[str, Any]) -> CannedResponse:
        if self.signed is None:
            return CannedResponse(404, problem(404, "AUDIT_OFF"))
        number = int(query.get("cursor") or 0)
        if name == "heads":
            if self.refusal is not None:
                return self.refusal
            if self.earliest and datetime.fromisoformat(str(query["since"])) < datetime.fromisoformat(self.earliest):
                return CannedResponse(409, problem(409, "HEADS_MISSING", members={"earliest": self.earliest}))
            pages = list(self.signed.pages)
            following = str(number + 1) if number + 1 < len(pages) else None
            return CannedResponse(body={"envelope": pages[number], "next": following})
        if name == "anchors":
            [first, second] = self.signed.anchors
            # a day with many lines continues on the next page
            parts = [{**first, "lines": first["lines"][:2]}, {**first, "lines": first["lines"][2:]}, {**second}]
            return CannedResponse(body={"anchors": [parts[number]], "next": str(number + 1) if number < 2 else None})
        return CannedResponse(body=self.signed.keys)


@contextmanager
def calling(api: Any) -> Iterator[None]:
    """The client's requests, answered in this process."""

    def send(self: Client, request: Any) -> Any:
        from lucius_client.exchange import Response

        canned = api.respond(request.path, request.query)
        headers = {"content-type": "application/json", **canned.headers}
        return Response(canned.status, headers, json.dumps(canned.body).encode())

    with mock.patch.object(Client, "_send", send):
        yield


def exported(api: Api, folder: Path, *words: str) -> Any:
    with calling(api):
        return run_main(*EXPORT, "--output", str(folder / "b.tar.gz"), *words)


def test_the_commands_of_the_guide(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The export's second line; the first one is run by `test_login`, and the installation by `test_wheels`."""
    (tmp_path / "lucius.pem").write_bytes(SIGNER.pem)
    [_, export], [_, verify] = (block(GUIDE, name).splitlines() for name in ("export", "verify"))
    with calling(Api(documents(), SIGNER)):
        done = run_main(*shlex.split(export)[1:], cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", shlex.split(verify))
    with pytest.raises(SystemExit) as ended:
        command.main()
    assert (ended.value.code, "verified at levels 1, 2, 3, 4" in capsys.readouterr().out) == (0, True)


@pytest.mark.parametrize("words", [(), ("--with-content",)])
def test_an_export_is_verified_at_four_levels(tmp_path: Path, words: tuple[str, ...]) -> None:
    """Heads, anchors and keys of the API are in it; nothing is left beside it."""
    done = exported(Api(documents(), SIGNER), tmp_path, *words)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"{tmp_path / 'b.tar.gz'}: 3 jobs, 31 events\n"
    assert [each.name for each in tmp_path.iterdir()] == ["b.tar.gz"]
    verified = run_main("audit", "verify", str(tmp_path / "b.tar.gz"), "--key", SIGNER.key_id)
    assert verified.returncode == 0, verified.stdout
    assert re.findall(r"^(\d) \w+ +holds", verified.stdout, re.MULTILINE) == ["1", "2", "3", "4"]
    assert ("is withheld" in verified.stdout) == (words == ())


def test_an_export_without_heads_names_its_levels(tmp_path: Path) -> None:
    """LUCIUS signs none: the jobs that were created in the window, to level 3."""
    done = exported(Api(documents()), tmp_path, "--until", "2026-01-28T00:00:00Z")
    assert (done.returncode, "no signed heads" in done.stdout) == (0, True)
    verified = run_main("audit", "verify", str(tmp_path / "b.tar.gz"))
    assert (verified.returncode, "4 complete  not checked" in verified.stdout) == (0, True)


def test_an_interrupted_export_continues(tmp_path: Path) -> None:
    """Ctrl-C leaves no bundle; the same command reads the rest, also after a torn line."""
    api = Api(documents(), SIGNER)
    api.interrupted_after = 2
    done = exported(api, tmp_path)
    assert (done.returncode, "the same command continues" in done.stderr) == (130, True)
    assert not (tmp_path / "b.tar.gz").exists()
    with (tmp_path / "b.tar.gz.part" / "jobs.jsonl").open("ab") as journal:
        journal.write(b'{"job": {"job_id": "jo')
    api.interrupted_after, api.asked = None, []
    assert exported(api, tmp_path).returncode == 0
    assert [path for path in api.asked if path.startswith("/v1/jobs/")] == ["/v1/jobs/job_c/audit"]
    assert run_main("audit", "verify", str(tmp_path / "b.tar.gz"), "--key", SIGNER.key_id).returncode == 0


def test_another_export_starts_again(tmp_path: Path) -> None:
    """The rest of an export of another window is not used."""
    api = Api(documents(), SIGNER)
    api.interrupted_after = 1
    assert exported(api, tmp_path).returncode == 130
    api.interrupted_after, api.asked = None, []
    assert exported(api, tmp_path, "--until", "2026-01-28T00:00:00Z").returncode == 0
    assert len([path for path in api.asked if path.startswith("/v1/jobs/")]) == 3


def test_a_job_that_is_gone_is_named(tmp_path: Path) -> None:
    """Its head is signed, so the bundle is not complete. A continued export names the findings of the first run."""
    api = Api(documents(), SIGNER)
    del api.jobs["job_a"], api.jobs["job_c"]
    api.interrupted_after = 2
    assert exported(api, tmp_path).returncode == 130
    api.interrupted_after, api.absent = None, CannedResponse(410, problem(410, "ARCHIVE_GONE"))
    done = exported(api, tmp_path)
    assert (done.returncode, "job_a, job_c" in done.stderr) == (0, True)
    verified = run_main("audit", "verify", str(tmp_path / "b.tar.gz"), "--key", SIGNER.key_id)
    assert (verified.returncode, "job_a has a signed head and is not in the bundle" in verified.stdout) == (2, True)


@pytest.mark.parametrize(("status", "code"), [(410, "DATA_LOST"), (500, "ARCHIVE_INVALID")])
def test_a_job_that_cannot_be_read_stops_no_export(tmp_path: Path, status: int, code: str) -> None:
    """Manifest and stderr name it, also after an interruption; exit code 1, since it can be restored."""
    api = Api(documents(), SIGNER)
    del api.jobs["job_a"]
    api.absent, api.interrupted_after = CannedResponse(status, problem(status, code)), 1
    assert exported(api, tmp_path).returncode == 130
    api.interrupted_after, api.asked = None, []
    done = exported(api, tmp_path)
    assert (done.returncode, f"not exported: job_a ({code})" in done.stderr) == (1, True)
    assert "/v1/jobs/job_a/audit" not in api.asked
    with tarfile.open(tmp_path / "b.tar.gz") as tar:
        manifest = json.load(tar.extractfile("manifest.json"))  # type: ignore[arg-type]
    assert (manifest["not_exported"], manifest["totals"]["jobs"]) == ({"job_a": code}, 2)


def test_a_second_export_to_the_same_file_ends(tmp_path: Path) -> None:
    """One line; the first one's state does not change."""
    part = tmp_path / "b.tar.gz.part"
    part.mkdir()
    with (part / "lock").open("a") as first:
        fcntl.flock(first, fcntl.LOCK_EX)
        second = exported(Api(documents(), SIGNER), tmp_path)
    assert (second.returncode, second.stdout, len(second.stderr.splitlines())) == (2, "", 1)
    assert "another export uses" in second.stderr
    assert [*part.iterdir()] == [part / "lock"]
    assert exported(Api(documents(), SIGNER), tmp_path).returncode == 0
    assert not part.exists()


def test_an_export_to_a_file_system_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is done without a lock. Another error of the lock, and a lock that was removed meanwhile, end it."""

    def refuse(lock: Any, _: int, number: int = errno.ENOLCK) -> None:
        raise OSError(number, "no lock", lock.name)

    def remove(lock: Any, _: int) -> None:
        Path(lock.name).unlink()

    for flock, code, text in (
        (refuse, 0, ""),
        (partial(refuse, number=errno.EIO), 2, "cannot write"),
        (remove, 2, "another export uses"),
    ):
        monkeypatch.setattr(fcntl, "flock", flock)
        done = exported(Api(documents(), SIGNER), tmp_path)
        assert (done.returncode, text in done.stderr) == (code, True)


def test_an_export_begins_with_the_first_head(tmp_path: Path) -> None:
    """Its output states that. A window that ended before has no heads."""
    api = Api(documents(), SIGNER)
    api.earliest = "2026-01-27T09:00:00Z"
    before = exported(api, tmp_path, "--until", "2026-01-27T08:00:00Z")
    assert (before.returncode, "HEADS_MISSING" in before.stderr) == (3, True)
    done = exported(api, tmp_path)
    assert (done.returncode, len(done.stderr.splitlines())) == (0, 1)
    assert "the bundle begins at 2026-01-27T09:00:00Z, like the signed heads" in done.stderr
    assert run_main("audit", "verify", str(tmp_path / "b.tar.gz"), "--key", SIGNER.key_id).returncode == 0


def test_an_export_of_a_new_deployment_names_when_to_repeat_it(tmp_path: Path) -> None:
    """The first window is signed minutes after the first event."""
    api = Api(documents(), SIGNER)
    api.refusal = CannedResponse(409, problem(409, "HEADS_INCOMPLETE"), {"retry-after": "240"})
    done = exported(api, tmp_path)
    assert (done.returncode, len(done.stderr.splitlines())) == (3, 1)
    assert "again in 240 s, or with --without-heads (HEADS_INCOMPLETE)" in done.stderr


def test_an_export_is_refused(tmp_path: Path) -> None:
    """Without a tenant, to an unwritable folder, and if the API refuses: one line, and no file."""
    with calling(Api([])):
        nobody = run_main("audit", "export", "--output", str(tmp_path / "b.tar.gz"))
        nowhere = run_main(*EXPORT, "--output", "/proc/none/b.tar.gz")
    assert (nobody.returncode, nowhere.returncode) == (2, 2)
    assert "cannot write" in nowhere.stderr
    with serving(CannedResponse(403, problem(403, "SCOPE_MISSING"))) as api:
        refused = run_main(*EXPORT, "--output", str(tmp_path / "b.tar.gz"), api=api.url)
    assert (refused.returncode, len(refused.stderr.splitlines())) == (3, 1)
    assert not (tmp_path / "b.tar.gz").exists()
