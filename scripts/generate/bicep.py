"""Parts of the Bicep that the app's own declarations give: the type of `tuning`, and the packaged protocols."""

from __future__ import annotations

import json
from pathlib import Path

from infra.checks.seeds import seeds
from shared.settings import SETTINGS

ROOT = Path(__file__).resolve().parents[2]
SETTINGS_MODULE = ROOT / "infra" / "bicep" / "modules" / "app-settings.bicep"
PROTOCOLS = ROOT / "infra" / "bicep" / "protocols.json"

_START, _END = "// generated: tuning\n", "// end\n"


def files() -> dict[Path, str]:
    """The generated files with their text."""
    before, rest = SETTINGS_MODULE.read_text(encoding="utf-8").split(_START)
    after = rest.split(_END)[1]
    return {SETTINGS_MODULE: f"{before}{_START}{_tuning_type()}{_END}{after}", PROTOCOLS: _protocols()}


def _tuning_type() -> str:
    members = []
    for each in SETTINGS:
        if each.tuning:
            description = each.help.replace("\\", "\\\\").replace("'", "\\'").replace("${", "\\${")
            members.append(f"  @description('Optional. {description}.')\n  {each.name}: string?\n")
    return "type tuningType = {\n" + "\n".join(members) + "}\n"


def _protocols() -> str:
    entries = [
        {"key": key, "value": path.read_text(encoding="utf-8"), "type": "application/json"}
        for key, path in seeds(ROOT / "protocols").items()
    ]
    return json.dumps(entries, ensure_ascii=False, indent=2) + "\n"
