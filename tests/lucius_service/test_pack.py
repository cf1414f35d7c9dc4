"""The format of a pack, its hash, and `lucius pack`."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from lucius_client.cli.main import app
from lucius_service.pack import PackInvalid, plan_hash, read_pack
from tests.document_commands import block
from tests.running_stack import ROOT


def lucius(*words: str | Path) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, ["pack", *map(str, words)])
    return done.exit_code, done.stdout, done.stderr


@pytest.fixture
def pack(tmp_path: Path) -> Path:
    assert lucius("new", "word-count", "--dir", tmp_path)[0] == 0
    return tmp_path / "word-count"


def test_the_hash_is_that_of_sha256sum(pack: Path, tmp_path: Path) -> None:
    """`sha256sum` computes the same hash, of names and contents without bytecode and modes; a copy has the same."""
    (pack / "sub").mkdir()
    (pack / "sub" / "é b.txt").write_text("data")
    (pack / "Z.txt").write_text("data")
    (pack / "__pycache__").mkdir()
    (pack / "__pycache__" / "main.pyc").write_bytes(b"x")
    command = block(ROOT / "docs" / "guides" / "runs.md", "hash")
    [expected, *_] = subprocess.run(
        ["sh", "-c", command], cwd=pack, capture_output=True, text=True, check=True
    ).stdout.split()
    assert lucius("hash", pack) == (0, f"sha256:{expected}\n", "")
    (pack / "main.py").chmod(0o755)
    assert plan_hash(read_pack(pack), tmp_path / "copy") == f"sha256:{expected}"
    assert not (tmp_path / "copy" / "__pycache__").exists()
    assert plan_hash(read_pack(tmp_path / "copy")) == f"sha256:{expected}"
    (pack / "Z.txt").rename(pack / "Y.txt")
    assert plan_hash(read_pack(pack)) != f"sha256:{expected}"


@pytest.mark.parametrize(
    "manifest",
    [
        {"entry": "../main.py"},
        {"entry": "/main.py"},
        {"entry": "main.sh"},
        {"packId": "Upper"},
        {"packId": "../x"},
        {"packVersion": ""},
        {"unknown": 1},
        {"entry": "missing.py"},
    ],
    ids=lambda manifest: json.dumps(manifest),
)
def test_a_wrong_manifest_is_named(pack: Path, manifest: dict[str, object]) -> None:
    """Also a program outside the pack, or one that does not exist."""
    (pack / "pack.json").write_text(json.dumps({"packId": "a", "packVersion": "1", **manifest}))
    code, _, error = lucius("hash", pack)
    assert code == 2
    assert str(pack) in error
    [(name, value)] = manifest.items()
    assert name in error or str(value) in error


def test_only_files_are_in_a_pack(pack: Path) -> None:
    """A link could lead out of the folder, and a pipe would never end."""
    (pack / "link").symlink_to("/etc/passwd")
    with pytest.raises(PackInvalid, match="link is a symbolic link"):
        plan_hash(read_pack(pack))
    (pack / "link").unlink()
    subprocess.run(["mkfifo", pack / "pipe"], check=True)
    with pytest.raises(PackInvalid, match="is not a regular file"):
        plan_hash(read_pack(pack))


def test_nothing_is_overwritten(pack: Path) -> None:
    """`new` refuses a folder that exists, and an id that is not one."""
    (pack / "main.py").write_text("mine")
    assert lucius("new", "word-count", "--dir", pack.parent)[0] == 2
    assert (pack / "main.py").read_text() == "mine"
    assert lucius("new", "Word Count", "--dir", pack.parent)[0] == 2
