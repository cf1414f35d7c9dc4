from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from emulator.up.data_dir import DataDir
from emulator.up.errors import UpError
from shared.adapters.signing import PemSigner


def test_a_folder_serves_one_stack(tmp_path: Path) -> None:
    """A second stack on the same folder is refused with the first one's process id, and starts after its end."""
    first = DataDir(tmp_path)
    with pytest.raises(UpError, match=f"in use by a stack \\(process {os.getpid()}\\)"):
        DataDir(tmp_path)
    first.release()
    DataDir(tmp_path).release()


def test_a_folder_is_free_only_when_the_last_child_has_ended(tmp_path: Path) -> None:
    """After a killed `up` the next one waits for the children that still write."""
    opened = DataDir(tmp_path)
    (tmp_path / "up.lock").write_text("")  # as if the holder were dead: no process id that lives
    with subprocess.Popen(
        [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, pass_fds=(opened.lock_fd,)
    ) as child:
        opened.release()
        assert child.stdin is not None
        pid = os.fork()
        if pid == 0:  # ends the child while the next stack waits
            time.sleep(0.5)
            os.kill(child.pid, 9)
            os._exit(0)
        DataDir(tmp_path).release()
        assert child.wait(60) == -9
        os.waitpid(pid, 0)


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    """A file with the name of the folder is an error with its name."""
    (tmp_path / "file").write_text("")
    with pytest.raises(UpError, match=r"cannot use --data .*file: "):
        DataDir(tmp_path / "file")


def test_the_log_of_the_last_run_is_kept(tmp_path: Path) -> None:
    """Starting again renames a log instead of overwriting it."""
    data = DataDir(tmp_path)
    data.begin_log("host").write_text("first run")
    assert not data.begin_log("host").exists()
    assert (data.logs / "host.log.1").read_text() == "first run"
    data.release()


def reset(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "emulator", "reset", "--data", str(folder)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_reset_deletes_what_a_stack_kept(tmp_path: Path) -> None:
    """Twice, too; not while a stack runs, and not a folder that no stack created."""
    data = DataDir(tmp_path / "data")
    (data.path / "azurite").mkdir()
    (data.path / "azurite" / "rows.json").write_text("{}")
    refused = reset(data.path)
    assert (refused.returncode, refused.stderr.count("\n"), "in use by a stack" in refused.stderr) == (1, 1, True)
    data.release()
    for line in (f"deleted the data in {data.path}\n", f"{data.path} has no data\n"):
        assert reset(data.path).stdout == line
        assert [path.name for path in data.path.iterdir()] == ["up.lock"]
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "letter.txt").write_text("dear")
    assert (reset(tmp_path / "home").returncode, (tmp_path / "home" / "letter.txt").exists()) == (1, True)
    assert reset(tmp_path / "nowhere").returncode == 0


def test_the_keys_of_webhooks_are_made_once_and_go_with_a_reset(tmp_path: Path) -> None:
    """A restart uses the same, so that the secrets of webhooks stay valid; no other user may read them."""
    data = DataDir(tmp_path)
    first = data.webhook_keys()
    assert data.webhook_keys() == first
    assert first.startswith("local:")
    assert (tmp_path / "webhook.keys").stat().st_mode & 0o777 == 0o600
    data.clear()
    assert data.webhook_keys() != first
    data.release()


async def test_the_key_of_heads_is_made_once(tmp_path: Path) -> None:
    """A restart uses the same, so that its signatures can be verified; no other user may read it."""
    data = DataDir(tmp_path)
    path = data.audit_key()
    key = await PemSigner(path).public_key()
    assert await PemSigner(data.audit_key()).public_key() == key
    assert path.stat().st_mode & 0o777 == 0o600
    data.release()
