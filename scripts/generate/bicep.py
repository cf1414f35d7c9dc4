"""Generates parts of the Bicep: the type of `tuning`, the packaged protocols, the roles that may be assigned."""

from __future__ import annotations

import json
import re
from pathlib import Path

from infra.checks.seeds import seeds
from shared.settings import SETTINGS

ROOT = Path(__file__).resolve().parents[2]
SETTINGS_MODULE = ROOT / "infra" / "bicep" / "modules" / "app-settings.bicep"
ROLES = ROOT / "infra" / "bicep" / "modules" / "roles.bicep"
ASSIGNABLE = ROOT / "infra" / "pipelines" / "assignable_roles.txt"
PROTOCOLS = ROOT / "infra" / "bicep" / "protocols.json"

_START, _END = "// generated: tuning\n", "// end\n"


def files() -> dict[Path, str]:
    """Returns the generated files with their text."""
    before, rest = SETTINGS_MODULE.read_text(encoding="utf-8").split(_START)
    after = rest.split(_END)[1]
    return {
        SETTINGS_MODULE: f"{before}{_START}{_tuning_type()}{_END}{after}",
        PROTOCOLS: _protocols(),
        ASSIGNABLE: _assignable_roles(),
    }


def _tuning_type() -> str:
    members = []
    for each in SETTINGS:
        if each.tuning:
            description = each.help.replace("\\", "\\\\").replace("'", "\\'").replace("${", "\\${")
            members.append(f"  @description('Optional. {description}.')\n  {each.name}: string?\n")
    return "type tuningType = {\n" + "\n".join(members) + "}\n"


def _assignable_roles() -> str:
    """Returns a condition on the deployer's right to assign roles. The deployer can assign the roles of roles.bicep,
    and no other.

    https://learn.microsoft.com/azure/role-based-access-control/delegate-role-assignments-examples
    """
    ids = ", ".join(re.findall(r"(?m)^var \w+ = '(\S+)'$", ROLES.read_text(encoding="utf-8")))
    kind = "Microsoft.Authorization/roleAssignments"
    halves = [
        f"((!(ActionMatches{{'{kind}/{action}'}})) OR "
        f"(@{source}[{kind}:RoleDefinitionId] ForAnyOfAnyValues:GuidEquals {{{ids}}}))"
        for action, source in (("write", "Request"), ("delete", "Resource"))
    ]
    return " AND ".join(halves) + "\n"


def _protocols() -> str:
    entries = [
        {"key": key, "value": path.read_text(encoding="utf-8"), "type": "application/json"}
        for key, path in seeds(ROOT / "protocols").items()
    ]
    return json.dumps(entries, ensure_ascii=False, indent=2) + "\n"
