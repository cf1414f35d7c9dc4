"""Access keys, by which the auth level of a function admits requests.

As Core Tools, the host requires no keys unless `--keys FILE` names a JSON file:
`{"master": "...", "host": {"default": "..."}, "functions": {"name": {"default": "..."}}, "system": {...}}`.
The master key is valid for everything, a host key for every function, a function key for its function, a system key for
the durable API.
"""

from __future__ import annotations

import hmac
import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from functions_emulator.host.errors import HostError


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
        """Whether `key` may call a function with this auth level."""
        if auth_level == "anonymous":
            return True
        if auth_level == "admin":
            return _is_one_of(key, (self._master,))
        return _is_one_of(key, (self._master, *self._host, *self._functions.get(name.lower(), ())))

    def opens_admin(self, key: str | None) -> bool:
        """Whether `key` may call `/admin`."""
        return _is_one_of(key, (self._master,))

    def opens_durable(self, key: str | None) -> bool:
        """Whether `key` may call the durable API."""
        return _is_one_of(key, (self._master, *self._system))

    @property
    def durable(self) -> str:
        """The key in management URLs."""
        return self._system[0] if self._system else self._master


def load_keys(path: Path) -> Keys:
    """Reads the file. Raises `HostError` if it is not valid."""
    try:
        raw = json.loads(path.read_text())
        keys = Keys(raw["master"], raw.get("host", {}), raw.get("functions", {}), raw.get("system", {}))
    except OSError as error:
        raise HostError(f"--keys {path}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise HostError(f'--keys {path}: must be JSON with at least "master": {error!r}') from None
    if not isinstance(raw["master"], str) or not raw["master"]:
        raise HostError(f'--keys {path}: "master" must be a text that is not empty')
    return keys


def _is_one_of(key: str | None, keys: Iterable[str]) -> bool:
    return key is not None and any(hmac.compare_digest(key.encode(), one.encode()) for one in keys)
