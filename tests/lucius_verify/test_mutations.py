"""Mutated bundles, each caught at its level."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lucius_verify import Report, Verdict, verify
from lucius_verify.json_rows import digest
from lucius_verify.report import State
from tests.lucius_verify.file_mutations import BYTES, SIGNED, OnFiles, unchanged_files
from tests.lucius_verify.forging import (
    Files,
    Signer,
    chained,
    folded,
    listed,
    packed,
    retold,
    unpacked,
    verified,
    write,
)
from tests.lucius_verify.mutations import (
    CHAIN,
    IMPOSSIBLE,
    INVENTED,
    LOGS,
    REPLAYED,
    OnJob,
    fresh,
    fresh_logs,
    with_rows,
)
from tests.lucius_verify.stories import documents, failed_and_redriven, logs, replayed, troubled


class Bundles:
    """An honest bundle, the key that signed it, and a folder for forged ones."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.signer = Signer()
        self.key = folder / "key.pem"
        self.key.write_bytes(self.signer.pem)
        self.signed = self.signer.sign(documents(), logs())
        self.honest = write(folder / "honest.tar.gz", documents(), logs=logs(), signed=self.signed)
        #: one of two short jobs, for mutations of its files
        short, signed = list(failed_and_redriven()), self.signer.sign(failed_and_redriven(), logs())
        self.bytes = write(folder / "short.tar.gz", short, logs=logs(), signed=signed).read_bytes()
        #: heads of one job, for other histories of it
        self.one_signed = self.signer.sign([troubled()])
        self.replay_signed = self.signer.sign(replayed())

    def verified(self, content: bytes) -> Report:
        forged = self.folder / "forged.tar.gz"
        forged.write_bytes(content)
        return verify(forged, keys=[str(self.key)])


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> Bundles:
    return Bundles(tmp_path_factory.mktemp("bundles"))


def states(report: Report) -> list[State]:
    return [level.state for level in report.levels.values()]


HOLD, BROKEN, UNCHECKED = State.HOLDS, State.BROKEN, State.NOT_CHECKED


def test_there_are_two_hundred() -> None:
    """Of every class."""
    sizes = [len(BYTES) + len(SIGNED), len(CHAIN) + len(LOGS), len(IMPOSSIBLE), len(INVENTED)]
    assert min(sizes) >= 30
    assert sum(sizes) >= 200


def test_what_makes_a_mutation_changes_nothing_by_itself(bundles: Bundles, tmp_path: Path) -> None:
    """A forger that computes everything again without a change has the honest history, and honest files."""
    for same in (chained(fresh()), folded(fresh(), troubled()), retold(troubled(), 9), with_rows(fresh())):
        assert same == troubled()
    files = unpacked(bundles.bytes)
    unchanged_files(files)
    for content in (packed(files), packed(listed(files))):
        assert bundles.verified(content).verdict == Verdict.VERIFIED
    path = write(tmp_path / "b.tar.gz", list(replayed()), signed=bundles.replay_signed)
    report = verify(path, keys=[str(bundles.key)])
    assert (report.verdict, "1 of 1 links" in report.levels[3].detail) == (Verdict.VERIFIED, True), report.to_text()


def test_an_honest_bundle_is_verified(bundles: Bundles) -> None:
    """The bundle is verified at each level; without the key the report names the key that signed it."""
    report = verify(bundles.honest, keys=[str(bundles.key)])
    assert (states(report), report.verdict) == ([HOLD] * 4, Verdict.VERIFIED), report.to_text()
    assert (report.jobs, report.events, report.signed_by) == (3, 31, [bundles.signer.key_id])
    report = verify(bundles.honest)
    assert (states(report), report.verdict) == ([HOLD] * 4, Verdict.UNKNOWN_KEY)
    assert verify(bundles.honest, keys=[bundles.signer.key_id]).verdict == Verdict.VERIFIED


@pytest.mark.parametrize("mutation", [*BYTES, *(f"signed: {name}" for name in SIGNED)])
def test_bytes(bundles: Bundles, mutation: str) -> None:
    """Level 1 finds it, and one line names the file."""
    files: Files = unpacked(bundles.bytes)
    change: OnFiles = BYTES[mutation] if mutation in BYTES else SIGNED[mutation.removeprefix("signed: ")]
    change(files)
    report = bundles.verified(packed(files if mutation in BYTES else listed(files)))
    assert (states(report)[0], report.verdict) == (BROKEN, Verdict.BROKEN), report.to_text()
    assert len(str(report.broken).splitlines()) == 1


@pytest.mark.parametrize("mutation", CHAIN)
def test_chain(tmp_path: Path, mutation: str) -> None:
    """Level 2 catches it, although the digest of the bundle fits."""
    given = fresh()
    change: OnJob = CHAIN[mutation]
    changed = change(given)
    document = changed if isinstance(changed, dict) and "events" in changed else with_digest(given)
    report = verified(tmp_path, document)
    assert (states(report)[:2], report.verdict) == ([HOLD, BROKEN], Verdict.BROKEN), report.to_text()


@pytest.mark.parametrize("mutation", IMPOSSIBLE)
def test_impossible(tmp_path: Path, mutation: str) -> None:
    """Level 3 finds a history whose hashes and digests are valid."""
    forged = IMPOSSIBLE[mutation](fresh())
    assert forged is not None
    report = verified(tmp_path, forged)
    assert (states(report)[:3], report.verdict) == ([HOLD, HOLD, BROKEN], Verdict.BROKEN), report.to_text()


@pytest.mark.parametrize("mutation", INVENTED)
def test_invented(bundles: Bundles, mutation: str) -> None:
    """It could have happened: the signed heads catch it, and an attacker's own signature is by an unknown key."""
    forged = INVENTED[mutation](fresh())
    assert forged is not None
    path = write(bundles.folder / "invented.tar.gz", [forged], signed=bundles.one_signed)
    report = verify(path, keys=[str(bundles.key)])
    assert (states(report), report.verdict) == ([BROKEN, HOLD, HOLD, HOLD], Verdict.BROKEN), report.to_text()


def test_a_forger_signs_with_another_key(bundles: Bundles) -> None:
    """Everything holds, and the user has not named the key."""
    forged = INVENTED["event 22: another result"](fresh())
    assert forged is not None
    jobs = [forged, *failed_and_redriven()]
    path = write(bundles.folder / "other.tar.gz", jobs, logs=logs(), signed=Signer().sign(jobs, logs()))
    report = verify(path, keys=[str(bundles.key)])
    assert (states(report), report.verdict) == ([HOLD] * 4, Verdict.UNKNOWN_KEY)
    unsigned = write(bundles.folder / "unsigned.tar.gz", jobs, logs=logs())
    assert verify(unsigned, keys=[str(bundles.key)]).verdict == Verdict.UNKNOWN_KEY
    assert verify(unsigned).verdict == Verdict.VERIFIED


@pytest.mark.parametrize("mutation", REPLAYED)
def test_replays(bundles: Bundles, mutation: str) -> None:
    """A replay is compared with its original; the signed heads expose a history that is possible but different."""
    change, level = REPLAYED[mutation]
    signed = bundles.replay_signed if level == 1 else None
    report = verify(write(bundles.folder / "replayed.tar.gz", list(change()), signed=signed), keys=[str(bundles.key)])
    assert states(report)[:level] == [*[HOLD] * (level - 1), BROKEN], report.to_text()


@pytest.mark.parametrize("mutation", LOGS)
def test_logs(bundles: Bundles, mutation: str) -> None:
    """Logs of quotas and incidents are chained, and their heads are signed."""
    change, level = LOGS[mutation]
    entries = fresh_logs()
    change(entries)
    path = write(bundles.folder / "logs.tar.gz", documents(), logs=entries, signed=bundles.signed)
    report = verify(path, keys=[str(bundles.key)])
    assert states(report)[:level] == [*[HOLD] * (level - 1), BROKEN], report.to_text()


def test_old_entries_of_logs_may_be_removed(bundles: Bundles) -> None:
    """After their time; a log that is missing as a whole is a note."""
    for left, notes in ((fresh_logs()[1:], 0), ([], 1)):
        path = write(bundles.folder / "logs.tar.gz", documents(), logs=left, signed=bundles.signed)
        report = verify(path, keys=[str(bundles.key)])
        assert (report.verdict, len(report.notes)) == (Verdict.VERIFIED, notes), report.to_text()


@pytest.mark.parametrize("number", range(3))
def test_an_omitted_job_is_an_error(bundles: Bundles, number: int) -> None:
    """Level 4: its head is signed; so is a job that has no signed head."""
    left = [each for place, each in enumerate(documents()) if place != number]
    path = write(bundles.folder / "omitted.tar.gz", left, logs=logs(), signed=bundles.signed)
    report = verify(path, keys=[str(bundles.key)])
    assert (states(report), report.verdict) == ([HOLD, HOLD, HOLD, BROKEN], Verdict.BROKEN), report.to_text()
    signed = bundles.signer.sign(left, logs())
    path = write(bundles.folder / "invented.tar.gz", documents(), logs=logs(), signed=signed)
    report = verify(path, keys=[str(bundles.key)])
    assert (states(report), report.verdict) == ([HOLD, HOLD, HOLD, BROKEN], Verdict.BROKEN), report.to_text()


@pytest.mark.parametrize(
    ("name", "columns"),
    [
        ("total of jobs", {"jobs": 4}),
        ("total of events", {"events": 4}),
        ("total of states", {"by_status": {"SUCCEEDED": 3}}),
    ],
)
def test_totals(bundles: Bundles, name: str, columns: dict[str, object]) -> None:
    """Level 2: they are those that the histories have."""
    files = unpacked(bundles.bytes)
    manifest = json.loads(files["manifest.json"])
    manifest["totals"] |= columns
    files["manifest.json"] = json.dumps(manifest).encode()
    assert states(bundles.verified(packed(files))) == [HOLD, BROKEN, HOLD, HOLD], name


def test_a_history_in_two_places_is_found(bundles: Bundles) -> None:
    """Events of a job that jobs.jsonl does not have, or behind those of another."""
    files = unpacked(bundles.bytes)
    first, *rest = files["history.jsonl"].splitlines(keepends=True)
    files["history.jsonl"] = b"".join([*rest, first])
    report = bundles.verified(packed(listed(files)))
    assert (states(report)[1], report.verdict) == (BROKEN, Verdict.BROKEN), report.to_text()
    files = unpacked(bundles.bytes)
    files["jobs.jsonl"] = b"".join(reversed(files["jobs.jsonl"].splitlines(keepends=True)))
    report = bundles.verified(packed(listed(files)))
    assert str(report.broken) == "history.jsonl row 1: the job of the event is not in jobs.jsonl, or is out of order"


def test_a_redrive_that_carries_another_result_is_found(tmp_path: Path) -> None:
    """Level 3 compares it with the job that it took up; alone, it could have happened."""
    old, new = (json.loads(json.dumps(each)) for each in failed_and_redriven())
    assert verify(write(tmp_path / "b.tar.gz", [old, new])).verdict == Verdict.VERIFIED
    forged = json.loads(json.dumps(new).replace("workspace/ocr.json", "workspace/evil.json"))
    forged = with_rows(forged)
    report = verify(write(tmp_path / "b.tar.gz", [old, forged]))
    assert states(report)[:3] == [HOLD, HOLD, BROKEN], report.to_text()
    assert "the carried result of step ocr" in str(report.broken)
    assert verify(write(tmp_path / "b.tar.gz", [forged])).verdict == Verdict.VERIFIED


def with_digest(document: dict) -> dict:  # type: ignore[type-arg]
    rest = {name: value for name, value in document.items() if name != "digest"}
    return {**rest, "digest": f"sha256:{digest(rest)}"}
