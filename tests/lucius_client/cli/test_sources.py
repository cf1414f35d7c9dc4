"""Documents and lines that `lucius submit` accepts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lucius_client.cli import sources
from lucius_client.cli.exits import UsageError


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    hidden = ("in/.hidden.pdf", ".git/d.pdf", "in/__pycache__/e.pyc")
    for name in ("a.pdf", "b.png", "in/c.pdf", "odd [1].pdf", *hidden):
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_bytes(b"x")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("names", "documents"),
    [
        (["a.pdf", "https://x/y"], ["a.pdf", "https://x/y"]),
        (["."], ["a.pdf", "b.png", "in/c.pdf", "odd [1].pdf"]),
        (["*.p*"], ["a.pdf", "b.png", "odd [1].pdf"]),
        (["**/*.pdf"], ["a.pdf", "in/c.pdf", "odd [1].pdf"]),
        (["odd [1].pdf"], ["odd [1].pdf"]),
        (["a.pdf", "*.pdf"], ["a.pdf", "odd [1].pdf"]),
    ],
)
def test_documents_are_files_folders_patterns_and_uris(folder: Path, names: list[str], documents: list[str]) -> None:
    """A folder means its visible files, a file's name is never a pattern, and each file is submitted once."""
    assert sources.documents(names).readable("")[0] == documents


@pytest.mark.parametrize(
    ("step_type", "taken", "skipped"),
    [
        ("OCR", ["x.pdf", "x.PNG"], ["x.py", "x.txt"]),
        ("EMBEDDING", ["x.py", "x.txt"], ["x.PNG", "x.pdf"]),
        ("SIS", ["x.py", "x.txt"], ["x.PNG", "x.pdf"]),
        ("WORD_COUNT", ["x.PNG", "x.pdf", "x.py", "x.txt"], []),
    ],
)
def test_files_of_a_folder_that_the_protocol_cannot_read_are_skipped(
    tmp_path: Path, step_type: str, taken: list[str], skipped: list[str]
) -> None:
    """The type of its first step decides; a file that is named is submitted with any type."""
    for name in ("x.pdf", "x.PNG", "x.py", "x.txt"):
        (tmp_path / name).touch()
    found = sources.documents([str(tmp_path)]).readable(step_type)
    assert [{Path(each).name for each in names} for names in found] == [set(taken), set(skipped)]
    named = str(tmp_path / "x.py")
    assert sources.documents([named, str(tmp_path)]).readable("OCR")[0][0] == named


def test_patterns_choose_the_files_of_a_folder(folder: Path) -> None:
    """A pattern selects among the files that the protocol reads; a pattern without a match is an error."""
    assert sources.documents(["."], ["*.png", "c.*"]).readable("EMBEDDING") == (["b.png", "in/c.pdf"], [])
    for include, step_type, error in ((["*.docx"], "OCR", "no file in . matches"), ([], "EMBEDDING", "no file that")):
        with pytest.raises(UsageError, match=error):
            sources.documents(["."], include).readable(step_type)


@pytest.mark.parametrize("name", ["none.pdf", "*.docx"])
def test_a_missing_file_is_an_error(folder: Path, name: str) -> None:
    """A name or a pattern without a file is an error, not an empty submit."""
    with pytest.raises(UsageError, match=r"no such file: .+; check the path"):
        sources.documents([name])


def test_a_dash_is_not_stdin(folder: Path) -> None:
    """Documents are not read from stdin; the error names the option for job requests."""
    with pytest.raises(UsageError, match="no such file: -; to read job requests from stdin, use --ndjson -"):
        sources.documents(["-"])


def test_an_empty_folder_is_an_error(folder: Path) -> None:
    """A folder with hidden files only has no documents."""
    (folder / "empty").mkdir()
    (folder / "empty" / ".hidden").touch()
    with pytest.raises(UsageError, match="no file in empty"):
        sources.documents(["empty"])


def test_lines_are_envelopes_with_defaults(folder: Path) -> None:
    """Blank lines are numbered but skipped; the fields of a line override the defaults."""
    (folder / "jobs.ndjson").write_text('{"a": 1}\n\n{"a": 2, "b": 3}\n')
    assert sources.envelopes("jobs.ndjson", {"b": 0}) == {1: {"b": 0, "a": 1}, 3: {"b": 3, "a": 2}}
    (folder / "bad.ndjson").write_text('{"a": 1}\n\n[]\n')
    with pytest.raises(UsageError, match=r"bad\.ndjson:3: not a JSON object"):
        sources.envelopes("bad.ndjson", {})


def test_batches_keep_the_apis_bounds() -> None:
    """Each batch has at most 1000 lines and 1 MiB, and all lines keep their order."""
    many = [{"n": number} for number in range(2500)]
    assert [len(batch) for batch in sources.batches(many)] == [1000, 1000, 500]
    wide = [{"n": number, "text": "ä" * 200_000} for number in range(6)]
    batches = list(sources.batches(wide))
    assert [line for batch in batches for line in batch] == wide
    assert all(
        len("\n".join(json.dumps(line, ensure_ascii=False) for line in batch).encode()) <= 1024 * 1024
        for batch in batches
    )
    assert len(batches) == 3
