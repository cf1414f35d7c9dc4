"""The folder of a stack (lock, logs, keys, data of the children), and `reset`, which empties the folder."""

from __future__ import annotations

import argparse
import base64
import fcntl
import json
import os
import secrets
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from emulator.up.errors import UpError

#: maximum seconds for which children outlive a killed parent, since Azurite saves; they keep the lock until then
_HANDOVER_S = 30.0
_POLL_S = 0.1
_LOCK = "up.lock"

HELP = "delete the data of `up`: jobs, messages, documents, keys and logs"
DEFAULT = Path(".lucius")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--data", type=Path, default=DEFAULT, metavar="DIR", help=f"folder of the stack (default: {DEFAULT})"
    )


def run(args: argparse.Namespace) -> int:
    """Deletes the content of a stack's folder.

    Returns 0, also for a missing folder. Returns 1 if a stack uses the folder, the folder is not the folder of a stack,
    or its content cannot be deleted.
    """
    path: Path = args.data
    deleted = False
    try:
        if path.exists():
            if not (path / _LOCK).exists():
                raise UpError(f"{path} is not the folder of a stack, since {_LOCK} is missing")
            deleted = any(each.name != _LOCK for each in path.iterdir())
            data = DataDir(path)
            try:
                data.clear()
            finally:
                data.release()
    except (UpError, OSError) as error:
        print(f"reset: {error}", file=sys.stderr)
        return 1
    print(f"deleted the data in {path}" if deleted else f"{path} has no data")
    return 0


class DataDir:
    """`DIR`, locked for this process and its children. The children write further files.

    - `up.lock`: the lock (flock) of `up` and its children, so that no other stack writes to the same files. Its text is
      the process id of `up`.
    - `up.json`: `{"pid": 1, "children": {"host": {"pid": 2, "starts": 1, "ready": true}, ...}}`.
    - `bus.json`: the entities of the bus, as in `infra/bicep/topology.json` at the start.
    - `webhook.keys`: keys from which webhook secrets are derived (`LUCIUS_WEBHOOK_KEYS`), the same after a restart.
    - `audit.pem`: the key that signs heads of histories and anchors (`LUCIUS_AUDIT_KEY`).
    - `logs/NAME.log`, and `NAME.log.1` of the previous run.
    """

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.logs = self.path / "logs"
        try:
            self.logs.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(self.path / _LOCK, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise UpError(f"cannot use --data {path}: {error.strerror}") from error
        self._acquire()

    @property
    def lock_fd(self) -> int:
        """Returns the descriptor of the lock, which children inherit. The lock is free after the last child has
        ended.
        """
        return self._lock

    def log_path(self, name: str) -> Path:
        return self.logs / f"{name}.log"

    def begin_log(self, name: str) -> Path:
        """Returns the path of a new log. Renames the log of the last run to `NAME.log.1`."""
        path = self.log_path(name)
        with suppress(FileNotFoundError):
            path.replace(path.with_suffix(".log.1"))
        return path

    def write_state(self, children: Mapping[str, Mapping[str, Any]]) -> None:
        target = self.path / "up.json"
        draft = target.with_suffix(".tmp")
        draft.write_text(json.dumps({"pid": os.getpid(), "children": children}, indent=1))
        draft.replace(target)

    def webhook_keys(self) -> str:
        """Returns this stack's own keys. Creates the keys if their file is missing. Raises UpError if the file cannot
        be used.
        """
        path = self._secret(
            "webhook.keys", lambda: f"local:{base64.b64encode(secrets.token_bytes(32)).decode()}\n".encode()
        )
        return path.read_text(encoding="utf-8").strip()

    def audit_key(self) -> Path:
        """Returns the PEM file with this stack's own key. Creates the file if it is missing. Raises UpError if the file
        cannot be used.
        """
        return self._secret("audit.pem", _new_key)

    def _secret(self, name: str, make: Callable[[], bytes]) -> Path:
        path = self.path / name
        try:
            if not path.exists():
                draft = path.with_suffix(".tmp")
                with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
                    file.write(make())
                draft.replace(path)
            # an unreadable file ends the start with its name
            path.read_bytes()
        except OSError as error:
            raise UpError(f"{path} cannot be used: {error.strerror}") from None
        return path

    def clear(self) -> None:
        """Deletes all data and logs of the stack. The folder and its lock stay."""
        for path in self.path.iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            elif path.name != _LOCK:
                path.unlink()

    def release(self) -> None:
        """Deletes `up.json` and releases the lock. Must be called after the last process of the stack has ended."""
        with suppress(FileNotFoundError):
            (self.path / "up.json").unlink()
        os.close(self._lock)

    def _acquire(self) -> None:
        deadline = time.monotonic() + _HANDOVER_S
        while True:
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                holder = os.pread(self._lock, 20, 0).decode(errors="replace").strip()
                if _is_alive(holder):
                    raise UpError(
                        f"{self.path} is in use by a stack (process {holder}); "
                        "stop that stack, or set another folder with --data"
                    ) from None
                if time.monotonic() > deadline:
                    raise UpError(
                        f"{self.path} is still locked by processes of a killed stack; "
                        f"end the processes in {self.path / 'up.json'}"
                    ) from None
                time.sleep(_POLL_S)
        os.ftruncate(self._lock, 0)
        os.pwrite(self._lock, str(os.getpid()).encode(), 0)


def _is_alive(pid: str) -> bool:
    if not pid.isdigit():
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _new_key() -> bytes:
    # this import takes an eighth of a second, at the first start only
    from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    return generate_private_key(SECP256R1()).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
