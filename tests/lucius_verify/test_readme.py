"""README.txt of a bundle: its commands verify it with `jq`, `openssl` and `sha256sum` alone."""

from __future__ import annotations

import subprocess
import tarfile
from pathlib import Path

import pytest

from tests.lucius_verify.forging import Signer, write
from tests.lucius_verify.mutations import INVENTED, fresh
from tests.lucius_verify.stories import documents, failed_and_redriven, logs

pytestmark = [pytest.mark.needs(tool) for tool in ("jq", "openssl", "sha256sum")]


def commands(folder: Path) -> str:
    lines = (folder / "README.txt").read_text().splitlines()
    return "\n".join(line.removeprefix("$ ") for line in lines if line.startswith("$ "))


def run(bundle: Path, folder: Path, key: Path) -> subprocess.CompletedProcess[str]:
    folder.mkdir()
    with tarfile.open(bundle) as archive:
        archive.extractall(folder, filter="data")
    return subprocess.run(
        ["bash", "-euc", commands(folder)],
        cwd=folder,
        env={"PATH": "/usr/bin:/bin:/usr/local/bin", "KEY": str(key)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("with_content", [True, False])
def test_the_readme_verifies_the_bundle(tmp_path: Path, with_content: bool) -> None:
    """Files, a signature, the heads of its page and the hash of an event."""
    signer = Signer()
    key = tmp_path / "key.pem"
    key.write_bytes(signer.pem)
    signed = signer.sign(documents(), logs())
    bundle = write(tmp_path / "b.tar.gz", documents(), logs=logs(), signed=signed, with_content=with_content)
    done = run(bundle, tmp_path / "honest", key)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    key_id, verified, computed, written = done.stdout.splitlines()
    assert (key_id, verified) == (signer.key_id, "Verified OK")
    assert computed == written == documents()[0]["events"][0]["hash"]


def test_the_readme_finds_a_forger(tmp_path: Path) -> None:
    """Another key, or a history that the signed head does not name."""
    signer, other = Signer(), Signer()
    key = tmp_path / "key.pem"
    key.write_bytes(signer.pem)
    forged = [INVENTED["event 22: another result"](fresh()) or {}, *failed_and_redriven()]
    done = run(write(tmp_path / "a.tar.gz", forged, signed=other.sign(forged)), tmp_path / "a", key)
    assert (done.returncode, "Verification failure" in done.stdout + done.stderr) == (1, True)
    done = run(write(tmp_path / "b.tar.gz", forged, signed=signer.sign(documents())), tmp_path / "b", key)
    assert 'missing: {"hash"' in done.stdout or 'missing: {"job_id"' in done.stdout
