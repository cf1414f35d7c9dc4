"""The state of the emulated Azure and azd, stored in a file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

NEW: dict[str, Any] = {
    "az": "2.89.0",
    #: subscription: tenant
    "subscriptions": {"sub-1": "tenant-1"},
    "default": "sub-1",
    "month": "2026-11",
    #: actions that the signed-in identity may not do
    "denied": [],
    #: those that are registered; a new subscription has fewer
    "providers": [
        *("microsoft.insights", "Microsoft.App", "Microsoft.AppConfiguration", "Microsoft.Consumption"),
        *("Microsoft.DurableTask", "Microsoft.KeyVault", "Microsoft.ManagedIdentity", "Microsoft.Network"),
        *("Microsoft.OperationalInsights", "Microsoft.ServiceBus", "Microsoft.Storage"),
    ],
    "flex": ["westeurope", "northeurope"],
    "flex_zones": ["northeurope"],
    "schedulers": ["West Europe"],
    "apps": [],
    "principals": [],
    "grants": [],
    #: how often a principal is not found, by its id
    "new_principals": {},
    #: custom roles of the tenant
    "own_roles": [],
    #: how often a registration is not found after it was made
    "lag": 0,
    #: with their secrets
    "vaults": [],
    #: names of registries, and `name:tag` of the images in them
    "registries": [],
    "images": [],
    #: existing resources of a company, by id
    "resources": {},
    "groups": [],
    "role_assignments": 12,
    #: as az lists them after a teardown without purge
    "deleted_vaults": [],
    "deleted_stores": [],
    #: ids of roles that the deployer may assign; None: all
    "assignable": None,
    #: of the subscription: deployed resources, and fixed values
    "deployed": None,
    "stack": None,
    #: resources that the present template no longer has
    "left_out": [],
    "azd": {},
    #: of GitHub, by name
    "environments": {},
    "asked": [],
}


@contextmanager
def changing(file: Path) -> Iterator[dict[str, Any]]:
    """The state; it is written when the block ends, also by an exception."""
    state = json.loads(file.read_text())
    try:
        yield state
    finally:
        file.write_text(json.dumps(state))
