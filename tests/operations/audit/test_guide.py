"""The commands of docs/guides/audit.md about heads and keys, run unchanged."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from shared.operations.audit.signed_heads import sign_heads
from tests.document_commands import block
from tests.jobs import ROOT
from tests.worlds.audit import Audited, audited
from tests.worlds.events import TENANT

__all__ = ["audited"]  # a fixture

GUIDE = ROOT / "docs" / "guides" / "audit.md"


def run(name: str, folder: Path, **environment: str) -> str:
    commands = ["env", *(f"{key}={value}" for key, value in environment.items()), "bash", "-euo", "pipefail", "-c"]
    done = subprocess.run([*commands, block(GUIDE, name)], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.needs("jq")
async def test_a_page_is_verified_without_lucius_and_the_key_rotated(audited: Audited, tmp_path: Path) -> None:
    """By `jq`, `printf` and `openssl` alone; the new key signs at once, and has another id."""
    job_id = await audited.finished()
    await audited.taken()
    ids = set[str]()
    for _ in range(2):
        audited.world.clock.advance(3600)
        envelope, following = await sign_heads(audited.world.context, TENANT, since=None, until=None, cursor=None)
        (tmp_path / "page.json").write_text(json.dumps({"envelope": envelope, "next": following}))
        key = await audited.audit.signer.public_key()
        run("public-key", tmp_path, LUCIUS_AUDIT_KEY=str(audited.key))
        assert (tmp_path / "lucius.pem").read_text() == key.pem
        (tmp_path / "lucius.pem").replace(tmp_path / "key.pem")
        [verified, key_id, head] = run("verify-heads", tmp_path).splitlines()
        assert verified == "Verified OK"
        assert key_id.split()[-1] == key.key_id == envelope["signatures"][0]["keyid"]
        [expected] = (await audited.expected_heads(job_id)).values()
        assert head.split("\t") == [job_id, str(expected.seq), expected.hash]
        ids.add(key.key_id)
        run("rotate-key", tmp_path, LUCIUS_AUDIT_KEY=str(audited.key))
    assert len(ids) == 2
