"""Untrusted files: truncated, reordered, oversized, or made to fill a disk. One line, exit code 2, bounded memory."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from lucius_verify import Verdict, tarball, verify
from lucius_verify.report import State
from tests.lucius_verify.forging import Files, Signer, listed, packed, unpacked, write
from tests.lucius_verify.stories import documents


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    signed = Signer().sign(documents())
    return write(tmp_path_factory.mktemp("reader") / "b.tar.gz", documents(), signed=signed).read_bytes()


def refused(folder: Path, content: bytes) -> str:
    """Returns the line about a file that cannot be read."""
    path = folder / "forged.tar.gz"
    path.write_bytes(content)
    report = verify(path)
    assert (report.verdict, report.levels[1].state) == (Verdict.BROKEN, State.BROKEN), report.to_text()
    assert [level.state for level in report.levels.values()][1:] == [State.NOT_CHECKED] * 3
    line = str(report.broken)
    assert len(line.splitlines()) == 1
    assert len(line) < 500
    return line


@pytest.mark.parametrize("share", [0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99])
def test_a_torn_file(tmp_path: Path, honest: bytes, share: float) -> None:
    """Wherever it ends."""
    assert "cut off" in refused(tmp_path, honest[: int(share * len(honest))])


@pytest.mark.parametrize("share", [0.02, 0.2, 0.4, 0.6, 0.8, 0.98])
def test_a_damaged_file(tmp_path: Path, honest: bytes, share: float) -> None:
    """A byte changed in transit: gzip's checksum finds it, or the reader of its rows."""
    damaged = bytearray(honest)
    damaged[int(share * len(honest))] ^= 0x55
    path = tmp_path / "damaged.tar.gz"
    path.write_bytes(damaged)
    assert verify(path).verdict == Verdict.BROKEN


def _kind(kind: bytes) -> Callable[[tarfile.TarInfo], Any]:
    def change(header: tarfile.TarInfo) -> None:
        if header.name == "jobs.jsonl":
            header.type, header.linkname = kind, "/etc/passwd"

    return change


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.DIRTYPE, b"L", b"x", b"g"])
def test_a_member_that_is_no_plain_file(tmp_path: Path, honest: bytes, kind: bytes) -> None:
    """Links, devices, folders, and headers that name or size another member."""
    assert "is not a plain file" in refused(tmp_path, packed(unpacked(honest), _kind(kind)))


@pytest.mark.parametrize("kind", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_another_format_of_tar(tmp_path: Path, honest: bytes, kind: int) -> None:
    """Only POSIX ustar is read: the others have headers of any size before a member."""
    files = {**unpacked(honest), f"anchors/{'x' * 200}": b""}
    assert refused(tmp_path, packed(files, kind=kind))


def test_a_wrong_checksum(tmp_path: Path, honest: bytes) -> None:
    """Of a header."""
    archive = bytearray(gzip.decompress(honest))
    archive[100] ^= 1
    assert "is not a plain file" in refused(tmp_path, gzip.compress(archive))


def test_something_behind_the_end(tmp_path: Path, honest: bytes) -> None:
    """Of the archive, or of the compressed file."""
    assert "follow the end" in refused(tmp_path, gzip.compress(gzip.decompress(honest) + b"evil"))
    assert refused(tmp_path, honest + b"evil")


def _row(text: bytes) -> Callable[[Files], None]:
    def change(files: Files) -> None:
        first, _, rest = files["history.jsonl"].partition(b"\n")
        files["history.jsonl"] = first + b"\n" + text + b"\n" + rest

    return change


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"{", "invalid JSON"),
        (b"[]", "not a JSON object"),
        (b"", "invalid JSON"),
        (b"\xff{}", "invalid JSON"),
        (b'{"job_id": NaN}', "NaN is not allowed in JSON"),
        (b'{"job_id": "a", "job_id": "b"}', "two fields of the same name"),
        (b"[" * 100 + b"]" * 100, "nested levels"),
        (b'{"x":' * 100_000 + b"1" + b"}" * 100_000, "nested levels"),
        (b'{"job_id": ' + b"9" * 1000 + b"}", "out of range"),
        (b'{"job_id": 1}', "not an event"),
        (b'{"job_id": "\x1b[2J"}', "invalid JSON"),
    ],
    ids=lambda given: given if isinstance(given, str) else str(len(given)),
)
def test_a_row_of_a_stranger(tmp_path: Path, honest: bytes, text: bytes, why: str) -> None:
    """The line names the file and the row."""
    files = unpacked(honest)
    _row(text)(files)
    path = tmp_path / "rows.tar.gz"
    path.write_bytes(packed(listed(files)))
    report = verify(path)
    assert (report.verdict, report.levels[2].state) == (Verdict.BROKEN, State.BROKEN)
    assert str(report.broken).startswith("history.jsonl row 2: ")
    assert why in str(report.broken)
    assert "\x1b" not in report.to_text()


def test_a_row_of_any_length(tmp_path: Path, honest: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is bounded: a row is in memory as a whole."""
    monkeypatch.setattr(tarball, "MAX_ROW", 100)
    path = tmp_path / "rows.tar.gz"
    path.write_bytes(honest)
    assert str(verify(path).broken) == "heads.jsonl row 1: the row has more than 100 bytes"


def test_an_anchor_of_no_day(tmp_path: Path, honest: bytes) -> None:
    """The name has the form of a date."""
    files: Files = {}
    for name, content in unpacked(honest).items():
        files[name] = content
        if name == "heads.jsonl":
            files["anchors/2026-13-45.jsonl"] = b"{}\n"
    path = tmp_path / "anchors.tar.gz"
    path.write_bytes(packed(listed(files)))
    report = verify(path)
    assert (report.verdict, str(report.broken)) == (Verdict.BROKEN, "anchors/2026-13-45.jsonl: the name has no date")


def test_an_anchor_of_incomplete_days(tmp_path: Path) -> None:
    """The app anchors a day with missing heads after some hours, and says so in the tenant's file."""
    for number, (about, noted) in enumerate((({"complete": False}, True), ({"complete": True}, False))):
        signed = Signer().sign(documents(), about=about)
        report = verify(write(tmp_path / f"{number}.tar.gz", documents(), signed=signed))
        assert (report.broken is None) == noted, report.to_text()
        assert any(note.startswith("2 anchored days lack heads") for note in report.notes) == noted


def test_a_row_without_its_end(tmp_path: Path, honest: bytes) -> None:
    """The file ends in the middle of it."""
    files = unpacked(honest)
    files["history.jsonl"] = files["history.jsonl"][:-20]
    path = tmp_path / "rows.tar.gz"
    path.write_bytes(packed(listed(files)))
    assert "the row is cut off" in str(verify(path).broken)


def zeros(size: int, name: str = "jobs.jsonl", before: Files | None = None) -> bytes:
    """Returns an archive with a file of this number of zeros, made without them."""
    made = io.BytesIO()
    with gzip.GzipFile(fileobj=made, mode="wb", mtime=0) as whole:
        for each, content in (before or {}).items():
            header = tarfile.TarInfo(each)
            header.size = len(content)
            whole.write(header.tobuf(tarfile.USTAR_FORMAT) + content + bytes(-len(content) % 512))
        header = tarfile.TarInfo(name)
        header.size = size
        whole.write(header.tobuf(tarfile.USTAR_FORMAT))
        for _ in range(size >> 20):
            whole.write(bytes(1 << 20))
    return made.getvalue()


@pytest.mark.parametrize("name", ["manifest.json", "heads.jsonl", "README.txt", "signatures/heads-000001.json"])
def test_a_zip_bomb(tmp_path: Path, honest: bytes, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends after the first MiB that are too many for its size, in little memory."""
    monkeypatch.setattr(tarball, "_RATIO_FROM", 8 << 20)
    files = unpacked(honest)
    before = {} if name == "manifest.json" else {"manifest.json": listed({**files, name: b""})["manifest.json"]}
    bomb = zeros(12 << 20, name, before)
    assert len(bomb) < 1 << 16
    tracemalloc.start()
    refused(tmp_path, bomb)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 20 << 20


def test_a_size_that_is_not_there(tmp_path: Path) -> None:
    """A header may name any size; the reader allocates none of it."""
    header = tarfile.TarInfo("manifest.json")
    header.size = 7 << 30
    assert "more than" in refused(tmp_path, gzip.compress(header.tobuf(tarfile.USTAR_FORMAT)))


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b"not a bundle", b"\x1f\x8b", b'{"format": "lucius-audit/1"}'])
def test_what_is_no_bundle(tmp_path: Path, content: bytes) -> None:
    """Any input is refused with a line, and without an exception."""
    refused(tmp_path, content)


def test_a_text_that_a_terminal_obeys_is_shown(tmp_path: Path) -> None:
    """A job's id in a report is one line of visible characters."""
    [document, *_] = (json.loads(json.dumps(each)) for each in documents())
    document["job"]["status"] = "\x1b[2J\nverified: all is well"
    path = tmp_path / "one.json"
    path.write_text(json.dumps(document))
    text = verify(path).to_text()
    assert "\x1b" not in text
    assert [line[:8] for line in text.splitlines()][-1] == "broken: "


def test_a_jobs_history_is_bounded(tmp_path: Path, honest: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is in memory as a whole."""
    monkeypatch.setattr("lucius_verify.bundle.MAX_HISTORY", 1000)
    path = tmp_path / "b.tar.gz"
    path.write_bytes(honest)
    report = verify(path)
    assert "the events of job_a have more than 1000 bytes" in str(report.broken)


def _spoilt(value: Any, random: Random) -> Any:
    """The value with one part of it, at random, replaced by something else."""
    if isinstance(value, dict) and value and random.random() < 0.9:
        name = random.choice(list(value))
        return {**value, name: _spoilt(value[name], random)}
    if isinstance(value, list) and value and random.random() < 0.9:
        place = random.randrange(len(value))
        return [*value[:place], _spoilt(value[place], random), *value[place + 1 :]]
    return random.choice([None, True, -1, 2**70, 1e300, "", "\ud800", "x" * 500, [], [[]], {}, {"x": None}])


@pytest.mark.parametrize("seed", range(25))
def test_a_value_of_another_type_is_a_fault(tmp_path: Path, honest: bytes, seed: int) -> None:
    """Anywhere in the files: no exception, and the file is broken."""
    random, files = Random(seed), unpacked(honest)
    name = random.choice(["manifest.json", "jobs.jsonl", "history.jsonl", "heads.jsonl", "signatures/keys.json"])
    rows = files[name].splitlines() if name.endswith("l") else [files[name]]
    place = random.randrange(len(rows))
    rows[place] = json.dumps(_spoilt(json.loads(rows[place]), random)).encode()
    files[name] = b"".join(row + b"\n" for row in rows)
    path = tmp_path / "spoilt.tar.gz"
    path.write_bytes(packed(files if name == "manifest.json" else listed(files)))
    assert verify(path, keys=["0" * 64]).verdict in (Verdict.BROKEN, Verdict.UNKNOWN_KEY)
