"""Access keys, by which the auth level of a function admits requests.

As in Azure, functions, `/admin` and the durable API require a key. Exceptions are functions with the auth level
`anonymous`, and `/admin/host/ping`. The keys are those of a JSON file: `{"master": "...", "host": {"default": "..."},
"functions": {"name": {"default": "..."}}, "system": {...}}`.

The master key is valid for everything. A host key is valid for every function, and a function key for its function,
except functions with the auth level `admin`. A system key is valid for the durable API.
"""

from __future__ import annotations

import hmac
import json
import os
import secrets
import tempfile
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from functions_emulator.host.errors import HostError

#: name of the key file in the folder of `--data`
KEYS_FILE = "keys.json"


class Keys:
    """The keys of one host."""

    def __init__(
        self,
        master: str,
        host: Mapping[str, str],
        functions: Mapping[str, Mapping[str, str]],
        system: Mapping[str, str],
    ) -> None:
        self._master = master
        self._host = tuple(host.values())
        self._functions = {name.lower(): tuple(keys.values()) for name, keys in functions.items()}
        self._system = tuple(system.values())

    def opens_function(self, key: str | None, name: str, auth_level: str) -> bool:
        """Returns True if `key` can call a function with this auth level."""
        if auth_level == "anonymous":
            return True
        if auth_level == "admin":
            return _is_one_of(key, (self._master,))
        return _is_one_of(key, (self._master, *self._host, *self._functions.get(name.lower(), ())))

    def opens_admin(self, key: str | None) -> bool:
        """Returns True if `key` can call `/admin`."""
        return _is_one_of(key, (self._master,))

    def opens_durable(self, key: str | None) -> bool:
        """Returns True if `key` can call the durable API."""
        return _is_one_of(key, (self._master, *self._system))

    @property
    def durable(self) -> str:
        """Returns the key for management URLs."""
        return self._system[0] if self._system else self._master


def keys_of(file: Path | None, data_dir: Path | None) -> Keys:
    """Returns the keys of `file`. Without `file`, returns the keys of `keys.json` in the data folder. Creates a missing
    `keys.json` with random keys. Without a data folder, returns random keys.

    Raises `HostError` if a file cannot be read or written, or is invalid.
    """
    if file is not None:
        return load_keys(file)
    random: dict[str, Any] = {
        "master": secrets.token_urlsafe(32),
        "host": {"default": secrets.token_urlsafe(32)},
        "system": {"durabletask_extension": secrets.token_urlsafe(32)},
    }
    if data_dir is None:
        return Keys(random["master"], random["host"], {}, random["system"])
    path = data_dir / KEYS_FILE
    try:
        data_dir.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            _write_new(path, json.dumps(random, indent=2))
    except OSError as error:
        raise HostError(f"--data {data_dir}: {error.strerror}") from None
    return load_keys(path)


def load_keys(path: Path) -> Keys:
    """Reads the file. Raises `HostError` if the file is unreadable or invalid."""
    try:
        raw = json.loads(path.read_text())
        functions = {name: _checked(keys, f"functions.{name}") for name, keys in raw.get("functions", {}).items()}
        master = _checked({"master": raw["master"]})["master"]
        return Keys(master, _checked(raw.get("host", {}), "host"), functions, _checked(raw.get("system", {}), "system"))
    except OSError as error:
        raise HostError(f"{path}: {error.strerror}") from None
    except HostError as error:
        raise HostError(f"{path}: {error}") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise HostError(f'{path}: must be JSON like {{"master": KEY, "host": {{NAME: KEY}}}}: {error!r}') from None


def _checked(keys: Mapping[str, Any], *parents: str) -> Mapping[str, str]:
    """Returns `keys`, which a file has. Raises `HostError` for a value that is blank or not a text."""
    for name, key in keys.items():
        if not isinstance(key, str) or not key.strip():
            raise HostError(f'"{".".join((*parents, name))}" must be a string that is not blank')
    return keys


def _write_new(path: Path, text: str) -> None:
    """Creates a file that only its owner can read, atomically. Keeps a file that another host created first."""
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f"{path.name}.")
    try:
        with open(descriptor, "w") as handle:
            handle.write(text)
            handle.flush()
            os.fsync(descriptor)
        with suppress(FileExistsError):
            os.link(temporary, path)
    finally:
        os.unlink(temporary)


def _is_one_of(key: str | None, keys: Iterable[str]) -> bool:
    return key is not None and any(hmac.compare_digest(key.encode(), one.encode()) for one in keys)
