"""App settings: `local.settings.json` below, the environment above it."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, MutableMapping
from pathlib import Path

from .errors import BindingError, HostError

_NAME = re.compile(r"%([^%]+)%")


class Settings:
    """Names are looked up as they are and with `:` written `__`, as .NET configuration does."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = values

    def get(self, name: str) -> str | None:
        value = self._values.get(name)
        return value if value is not None else self._values.get(name.replace(":", "__"))

    def resolve(self, text: str) -> str:
        """`text` with every `%NAME%` replaced; `BindingError` names a setting that is missing."""

        def value(found: re.Match[str]) -> str:
            setting = self.get(found[1])
            if setting is None:
                raise BindingError(f"the setting {found[1]!r} of {text!r} is missing")
            return setting

        return _NAME.sub(value, text)

    def connection(self, name: str) -> str:
        """The connection string behind a binding's `connection`, looked up as Azure's extensions do."""
        for candidate in (name, f"ConnectionStrings:{name}", f"AzureWebJobs{name}"):
            value = self.get(candidate)
            if value:
                return value
        if any(key.startswith(f"{name}__") for key in self._values):
            raise BindingError(
                f"the connection {name!r} is given by identity ({name}__...), which needs Azure: "
                f"set {name} to a connection string"
            )
        raise BindingError(f"the connection setting {name!r} is missing")


def load_settings(app_dir: Path, environment: MutableMapping[str, str] | None = None) -> Settings:
    """Reads `local.settings.json` and puts what the environment lacks into it, as Core Tools does."""
    target = os.environ if environment is None else environment
    path = app_dir / "local.settings.json"
    if path.exists():
        try:
            values = json.loads(path.read_text()).get("Values", {})
        except (ValueError, AttributeError) as error:
            raise HostError(f"{path}: not valid settings: {error}") from None
        for name, value in values.items():
            if not isinstance(value, str):
                raise HostError(f"{path}: the value of {name!r} must be a string")
            target.setdefault(name, value)
    return Settings(target)
