"""Loads protocols from `*.json` files in a folder, with their payload schemas."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from shared.core.registry import Registry, build_protocol
from shared.errors import ProtocolError


def load_registry(protocols: Path, topology: Path) -> Registry:
    """Loads the protocols. Raises ProtocolError with the name of the file."""
    services = load_services(topology)
    files = sorted(protocols.glob("*.json"))
    if not files:
        raise ProtocolError(f"no protocol files in {protocols}; correct LUCIUS_PROTOCOLS_PATH")
    schemas = load_schemas(protocols)
    return Registry((build_protocol(path.name, _read(path), schemas, services) for path in files), services)


def load_services(topology: Path) -> dict[str, str]:
    """Loads the step type of each service that has a subscription. Raises ProtocolError."""
    return {service["name"]: service["stepType"] for service in _read(topology)["services"]}


def load_schemas(protocols: Path) -> dict[str, Any]:
    """Loads the payload schemas by their path below the folder. Raises ProtocolError."""
    return {path.relative_to(protocols).as_posix(): _read(path) for path in protocols.glob("**/*.schema.json")}


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ProtocolError(f"{path}: {error.strerror}") from None
    except ValueError as error:
        raise ProtocolError(f"{path}: not JSON: {error}") from None
