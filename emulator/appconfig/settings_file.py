"""The key-values of a file, and the key filters of requests."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path


class SettingsFileError(Exception):
    """The file cannot be served. The message is the reason."""


@dataclass(frozen=True)
class KeyValue:
    """One setting. Labels are not supported."""

    key: str
    value: str
    last_modified: datetime

    @property
    def etag(self) -> str:
        return hashlib.sha256(f"{self.key}\0{self.value}".encode()).hexdigest()[:32]


class SettingsFile:
    """The settings of a file. Reads a changed file again. If the file is then unreadable or invalid, keeps the last
    valid content. The constructor raises SettingsFileError for such a file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp: tuple[int, int] | None = None
        self._settings: list[KeyValue] = []
        self._read()

    def read(self) -> list[KeyValue]:
        """Returns all settings in the order of their keys."""
        try:
            self._read()
        except SettingsFileError:
            return self._settings
        return self._settings

    def _read(self) -> None:
        try:
            state = self._path.stat()
            stamp = (state.st_mtime_ns, state.st_size)
            if stamp == self._stamp:
                return
            document = json.loads(self._path.read_text(encoding="utf-8"))
        except OSError as error:
            raise SettingsFileError(f"{self._path}: {error.strerror}") from None
        except ValueError as error:
            raise SettingsFileError(f"{self._path}: not JSON: {error}") from None
        if not isinstance(document, dict):
            raise SettingsFileError(f"{self._path}: must be a JSON object that maps keys to values")
        at = datetime.fromtimestamp(state.st_mtime, UTC)
        self._settings = [
            KeyValue(key, value if isinstance(value, str) else json.dumps(value), at)
            for key, value in sorted(document.items())
        ]
        self._stamp = stamp


def matches(pattern: str, key: str) -> bool:
    r"""Returns True if a key matches App Configuration's key filter.

    A filter is a list of keys, separated by commas. A key may end in `*`. A backslash escapes the next character
    (https://learn.microsoft.com/azure/azure-app-configuration/rest-api-key-value#supported-filters).
    """
    return any(_matches(part, key) for part in _split(pattern))


def _matches(pattern: str, key: str) -> bool:
    if pattern.endswith("*") and not pattern.endswith(r"\*"):
        return key.startswith(_unescape(pattern[:-1]))
    return key == _unescape(pattern)


def _split(pattern: str) -> list[str]:
    parts, escaped = [""], False
    for char in pattern:
        if char == "," and not escaped:
            parts.append("")
            continue
        parts[-1] += char
        escaped = char == "\\" and not escaped
    return parts


def _unescape(pattern: str) -> str:
    plain, escaped = "", False
    for char in pattern:
        if char == "\\" and not escaped:
            escaped = True
            continue
        plain, escaped = plain + char, False
    return plain
