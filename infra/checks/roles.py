"""Checks roles: the ids in Azure, and the rights of each principal in each deployment."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from infra.checks.finding import Finding
from infra.checks.snapshots import Resource, Snapshot, short
from infra.checks.topics import LANES

#: roles that LUCIUS assigns; https://learn.microsoft.com/azure/role-based-access-control/built-in-roles
BUILT_IN = {
    "AcrPull": "7f951dda-4ed3-4680-a7ca-43fe172d538d",
    "App Configuration Data Owner": "5ae67dd6-50cb-40e7-96ff-dc2bfa4b606b",
    "App Configuration Data Reader": "516239f1-63e1-4d78-a4de-a74fb236a071",
    "Azure Service Bus Data Owner": "090c5cfd-751d-490a-894a-3ce6f1109419",
    "Azure Service Bus Data Receiver": "4f6d3b9b-027b-4f4c-9142-0e5a2a2247e0",
    "Azure Service Bus Data Sender": "69a216fc-b8fb-44d8-bc22-1f3c2cd27a39",
    "Durable Task Data Contributor": "0ad04412-c4d5-4796-b79c-f76d14c8d402",
    "Key Vault Crypto User": "12338af0-0e69-4776-bea7-57ae8d297424",
    "Key Vault Secrets Officer": "b86a8fe4-44ce-4948-aee5-eccb2c155cd7",
    "Key Vault Secrets User": "4633458b-17de-408a-b874-0445c86b69e6",
    "Monitoring Metrics Publisher": "3913510d-42f4-4e42-8a64-420c390055eb",
    "Storage Blob Data Contributor": "ba92f5b4-2d11-453d-a403-e96b0029c9fe",
    "Storage Blob Data Owner": "b7e6dc6d-f1e8-4753-8033-0f276bb0955b",
    "Storage Blob Data Reader": "2a2b9908-6ea1-4ae2-8e65-a410df84e7d1",
    "Storage Blob Delegator": "db58b8e5-c6ad-4a2a-8342-4190687cbf4a",
    "Storage Queue Data Contributor": "974c5e8b-45b9-4653-ba55-5f855dd0fb88",
    "Storage Table Data Contributor": "0a9a7e1f-b9d0-4cc4-a60d-0319b160aaa3",
}
_NAMES = {guid: name for name, guid in BUILT_IN.items()}
#: maximum role assignments: 10 percent of a subscription's limit
MOST_ASSIGNMENTS = 400


class Right(NamedTuple):
    """A role of an identity on a resource.

    `who` is `app`, `operator`, `smoke`, `containers` (Container Apps itself), or a platform service. `where` has names
    of resources, without the parts of an environment. `only` has the actions on blobs that a condition restricts, and
    the paths that the condition allows.
    """

    who: str
    role: str
    where: str
    only: str = ""


#: rights in every snapshot; LUCIUS_VAULT of compiler.py adds the key vault
_ALWAYS = (
    Right("app", "Storage Blob Data Owner", "strun"),
    Right("app", "Storage Table Data Contributor", "strun"),
    Right("app", "Storage Table Data Contributor", "stled"),
    Right("app", "Storage Blob Data Contributor", "stled"),
    Right("app", "Azure Service Bus Data Receiver", "sbns"),
    Right("app", "Azure Service Bus Data Sender", "sbns"),
    Right("app", "Key Vault Secrets User", "kv"),
    Right("operator", "Key Vault Secrets Officer", "kv"),
    Right("app", "Monitoring Metrics Publisher", "appi"),
    Right("app", "Storage Blob Data Reader", "stdoc/runs"),
    Right("app", "Storage Blob Delegator", "stdoc"),
    Right("smoke", "Storage Blob Data Contributor", "stdoc/smoke"),
)
_STORE = (
    Right("app", "App Configuration Data Reader", "appcs"),
    Right("operator", "App Configuration Data Owner", "appcs"),
)
#: rights if heads are signed
_SIGNER = (
    Right("app", "Key Vault Crypto User", "kv/lucius-audit"),
    Right("app", "Storage Blob Data Contributor", "staud"),
)
_SCHEDULER = (Right("app", "Durable Task Data Contributor", "dts/lucius"),)
#: rights of the AzureStorage backend, which has queues
_NO_SCHEDULER = (Right("app", "Storage Queue Data Contributor", "strun"),)
#: rights of Container Apps: it pulls images and counts messages; Service Bus shows counts to owners only
_CONTAINERS = (
    Right("containers", "AcrPull", "crlucius"),
    Right("containers", "Azure Service Bus Data Owner", "sbns/global-bus-p*"),
)
#: rights of each platform service; `*` is each lane
_SERVICES = (
    Right("{who}", "Azure Service Bus Data Sender", "sbns/global-bus-replies-p*"),
    Right("{who}", "Storage Blob Data Reader", "stdoc/documents"),
    Right("{who}", "Storage Blob Data Reader", "stdoc/smoke"),
    Right("{who}", "Storage Blob Data Contributor", "stdoc/results", "delete, move: nowhere"),
    Right("{who}", "Storage Blob Data Contributor", "stdoc/workspace", "add, delete, move, write: {folders}"),
)
#: right of one platform service
_SERVICE = Right("{who}", "Azure Service Bus Data Receiver", "sbns/global-bus-p*/{service}")
#: right of the runner of packs
_RUNNER, _RUNS = "packs", Right("{who}", "Storage Blob Data Contributor", "stdoc/runs")
#: parameter files with operatorRunsServices: there the smoke test acts as every service, and uploads documents
_RUNS_SERVICES = ("minimal",)
#: parameter files whose services have identities
_HAS_SERVICES = ("dev", "prod")


def rights(root: Path, snapshot: Snapshot) -> set[Right]:
    """Returns exactly the rights that a deployment must have."""
    topology = json.loads((root / "infra" / "bicep" / "topology.json").read_text(encoding="utf-8"))
    types = {each["name"]: each["stepType"] for each in topology["services"]}
    found = {*_ALWAYS}
    found |= {*(_STORE if snapshot.of("Microsoft.AppConfiguration/configurationStores") else ())}
    found |= {*(_SCHEDULER if snapshot.of("Microsoft.DurableTask/schedulers") else _NO_SCHEDULER)}
    found |= {*(_SIGNER if snapshot.of("Microsoft.KeyVault/vaults/keys") else ())}
    found |= {*(_CONTAINERS if snapshot.of("Microsoft.App/containerApps") else ())}
    holders = {each: [each] for each in types} if snapshot.file.stem in _HAS_SERVICES else {}
    if snapshot.file.stem in _RUNS_SERVICES:
        found.add(Right("smoke", "Storage Blob Data Contributor", "stdoc/documents"))
        holders["smoke"] = list(types)
    for who, services in holders.items():
        folders = " or ".join(f"*/{types[each]}/*" for each in services)
        found |= {Right(*(part.format(who=who, folders=folders) for part in right)) for right in _SERVICES}
        found |= {Right(*(part.format(who=who, service=each) for part in _SERVICE)) for each in services}
        found |= {Right(*(part.format(who=who) for part in _RUNS))} if _RUNNER in services else set()
    return found


def check(root: Path, snapshot: Snapshot) -> list[Finding]:
    assignments = snapshot.of("Microsoft.Authorization/roleAssignments")
    given = Counter(right(each) for each in assignments)
    expected = rights(root, snapshot)
    found = [
        snapshot.finding("role", None, f"{each.role} is not in infra/checks/roles.py")
        for each in sorted(given)
        if each.role not in BUILT_IN
    ]
    found += [
        snapshot.finding("right", None, f"{_sentence(each)}: infra/checks/roles.py has no such right")
        for each in sorted(given.keys() - expected)
        if each.role in BUILT_IN
    ]
    for each in sorted(expected):
        lanes = LANES if "*" in each.where else 1
        if given[each] != lanes:
            found.append(
                snapshot.finding("right", None, f"{_sentence(each)}: is given {given[each]} times, not {lanes}")
            )
    if len(assignments) > MOST_ASSIGNMENTS:
        text = f"{len(assignments)} role assignments, at most {MOST_ASSIGNMENTS}, because a subscription can have 4,000"
        found.append(snapshot.finding("assignments", None, text))
    return found


def _sentence(right: Right) -> str:
    return f"{right.who} as {right.role} at {right.where}" + (f" ({right.only})" if right.only else "")


def right(assignment: Resource) -> Right:
    """Returns the right of a role assignment. A role that is not in the table keeps its id."""
    principal, role = (str(assignment.get(f"properties.{name}")) for name in ("principalId", "roleDefinitionId"))
    identity = re.search(r"userAssignedIdentities/id(?:-([\w-]+?))?-lucius-", principal)
    who = (identity[1] or "app") if identity else principal
    guid = (re.findall(r"[0-9a-f-]{36}", role) or [role])[-1]
    # TYPE/NAME/TYPE/NAME...: names only, without environment and token
    first, *others = short(assignment.scope).split("/")[2::2] or ["resource group"]
    first = re.sub(r"-lucius-.*|(?<=^st[a-z]{3})\w{13}$|(?<=^crlucius)\w{13}$", "", first)
    where = "/".join([first, *(each for each in others if each != "default")])
    return Right(who, _NAMES.get(guid, guid), where, _condition(assignment.get("properties.condition") or ""))


def _condition(text: str) -> str:
    """Returns the short form of a condition of this template. Returns any other condition unchanged."""
    actions, _, paths = text.strip("()").partition(") OR (")
    named = sorted(re.findall(r"!\(ActionMatches\{'Microsoft\.Storage/\S+/blobs/(\w+)(?:/action)?'\}", actions))
    allowed = re.findall(r"blobs:path\] StringLike '([^']+)'", paths)
    parts = len(text.replace(" OR ", " AND ").split(" AND ")) if text else 0
    if parts != len(named) + len(allowed):
        return text
    return f"{', '.join(named)}: {' or '.join(allowed) or 'nowhere'}" if text else ""
