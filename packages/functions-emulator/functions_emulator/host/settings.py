"""App settings: the environment, and `local.settings.json` for settings that the environment lacks."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, MutableMapping
from pathlib import Path

from functions_emulator.host.errors import BindingError, HostError
from functions_emulator.host.identity import connection_by_identity

_NAME = re.compile(r"%([^%]+)%")


class Settings:
    """The settings by name. `:` in a name may be written `__`, as in .NET configuration."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = values

    def get(self, name: str) -> str | None:
        """Returns the value of a setting, or `None`."""
        value = self._values.get(name)
        return value if value is not None else self._values.get(name.replace(":", "__"))

    def flag(self, name: str) -> bool:
        """Returns True if a setting is `true`, in any case."""
        return (self.get(name) or "").lower() == "true"

    def disabled(self, function: str) -> bool:
        """Returns True if `AzureWebJobs.NAME.Disabled` disables a function. The dots may be written `_` or `__`."""
        values = (self.get(f"AzureWebJobs{dot}{function}{dot}Disabled") for dot in (".", "_", "__"))
        return any((value or "").lower() in ("true", "1") for value in values)

    def resolve(self, text: str) -> str:
        """Returns `text` with every `%NAME%` replaced. Raises `BindingError` for a missing setting."""

        def value(placeholder: re.Match[str]) -> str:
            setting = self.get(placeholder[1])
            if setting is None:
                raise BindingError(f"{text!r} needs the setting {placeholder[1]!r}, which is missing; set it")
            return setting

        return _NAME.sub(value, text)

    def whole(self, text: str) -> str:
        """Returns the value of the setting if `text` is `%NAME%` and the setting exists, else `text`. Durable reads
        `hubName` this way.
        """
        name = _NAME.fullmatch(text)
        return (self.get(name[1]) if name else None) or text

    def connection(self, name: str, service: str) -> str:
        """Returns the connection string for the `connection` of a binding.

        `service` is `serviceBus`, `blob`, `queue` or `table`. The order is that of the WebJobs SDK
        (GetWebJobsConnectionSection): names with the prefix `AzureWebJobs` before other names, and connection strings
        before settings. Raises `BindingError` if no such setting exists, or if an identity-based connection needs
        Azure.
        """
        for candidate in (f"AzureWebJobs{name}", name):
            for key in (f"ConnectionStrings:{candidate}", candidate):
                if value := self.get(key):
                    return value
                if properties := self._properties(key):
                    return connection_by_identity(key, properties, service)
        raise BindingError(f"connection setting not found: {name!r}; set it, or its properties {name}__...")

    def _properties(self, name: str) -> dict[str, str]:
        """Returns the settings `NAME__property` and `NAME:property` by property, in lower case."""
        prefixes = (f"{name}__".lower(), f"{name}:".lower())
        return {
            key[len(prefix) :].lower(): value
            for key, value in self._values.items()
            for prefix in prefixes
            if key.lower().startswith(prefix)
        }


def load_settings(app_dir: Path, environment: MutableMapping[str, str] | None = None) -> Settings:
    """Reads `local.settings.json` and adds its settings that the environment lacks, as Core Tools does.

    Raises `HostError` if the file is invalid or encrypted.
    """
    target = os.environ if environment is None else environment
    path = app_dir / "local.settings.json"
    if path.exists():
        try:
            document = json.loads(path.read_text("utf-8-sig"))
            values = dict(document.get("Values") or {})
            for name, value in (document.get("ConnectionStrings") or {}).items():
                values[f"ConnectionStrings:{name}"] = value["ConnectionString"] if isinstance(value, dict) else value
        except (ValueError, AttributeError, KeyError, TypeError) as error:
            raise HostError(f"{path}: invalid settings: {error!r}") from None
        if document.get("IsEncrypted") is True:
            raise HostError(f"{path} is encrypted; decrypt the file with: func settings decrypt")
        for name, value in values.items():
            if not isinstance(value, str):
                raise HostError(f"{path}: the value of {name!r} must be a string")
            target.setdefault(name, value)
    return Settings(target)
