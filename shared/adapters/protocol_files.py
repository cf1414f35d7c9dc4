"""Protocols from files: `*.json` in the protocols folder and the schemas that they name (FEATURES B2)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from shared.core.registry import Registry, build
from shared.errors import ProtocolError


def load_registry(protocols: Path, topology: Path) -> Registry:
    """Raises ProtocolError, naming the file."""
    services = {service["name"]: service["stepType"] for service in _read(topology)["services"]}
    files = sorted(protocols.glob("*.json"))
    if not files:
        raise ProtocolError(f"{protocols}: no protocol files here")
    schemas = {path.relative_to(protocols).as_posix(): _read(path) for path in protocols.glob("**/*.schema.json")}
    return Registry(build(path.name, _read(path), schemas, services) for path in files)


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ProtocolError(f"{path}: {error.strerror}") from None
    except ValueError as error:
        raise ProtocolError(f"{path}: not JSON: {error}") from None
