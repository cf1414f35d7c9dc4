"""Facts of a deployment from the committed snapshots, without the compiler."""

from __future__ import annotations

import json
from typing import Any

from infra.checks.committed import FOLDER
from tests.jobs import ROOT


def deployed(parameters: str, kind: str) -> list[dict[str, Any]]:
    """The resources of a type in the deployment of a parameter file, in their short form."""
    resources = json.loads((ROOT / FOLDER / f"{parameters}.json").read_text(encoding="utf-8"))
    return [each for each in resources if each["type"] == kind]
