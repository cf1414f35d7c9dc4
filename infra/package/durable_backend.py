"""The durable backend of a parameter file, and its host.json.

The scale controller reads the backend in the packaged host.json, so package and template must agree. Both read the
parameter file. This module needs no packages, since scripts/package.py runs without the project's packages.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from infra.checks.finding import CheckFailed, Finding

#: values of the parameter `durableBackend`
HOST_JSON = {"DurableTaskScheduler": "host.json", "AzureStorage": "host.AzureStorage.json"}
SETTING = "LUCIUS_DURABLE_BACKEND"
_VALUE = re.compile(rf"(?m)^param durableBackend = readEnvironmentVariable\('{SETTING}', '(\w+)'\)$")


def parameter_file(root: Path) -> Path:
    """Returns the parameter file that azd uses: `infra.module` of azure.yaml. Raises CheckFailed."""
    module = re.search(r"(?m)^  module: (\w+)\s*$", (root / "azure.yaml").read_text(encoding="utf-8"))
    if module is None:
        raise CheckFailed("azure.yaml has no infra.module; set the name of the parameter file without its suffix")
    return root / "infra" / "bicep" / f"{module[1]}.bicepparam"


def chosen(parameters: Path, environ: Mapping[str, str]) -> str:
    """Returns the backend of a deployment with this file and environment.

    Raises CheckFailed if no backend is set, or if the backend is unknown.
    """
    backend = environ.get(SETTING) or _default(parameters)
    if backend is None:
        raise CheckFailed(f"{parameters}: durableBackend must be readEnvironmentVariable('{SETTING}', ...)")
    if backend not in HOST_JSON:
        raise CheckFailed(f"unknown durable backend {backend}; set {SETTING} to {' or '.join(HOST_JSON)}")
    return backend


def check(root: Path) -> list[Finding]:
    """Checks that each parameter file has a known default backend in the line that the packaging reads."""
    found = []
    for path in sorted((root / "infra" / "bicep").glob("*.bicepparam")):
        if _default(path) not in HOST_JSON:
            text = f"durableBackend must be readEnvironmentVariable('{SETTING}', one of {', '.join(HOST_JSON)})"
            found.append(Finding(path, 0, "durable-backend", text))
    return found


def _default(parameters: Path) -> str | None:
    try:
        value = _VALUE.search(parameters.read_text(encoding="utf-8"))
    except OSError:
        return None
    return value[1] if value else None
