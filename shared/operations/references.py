"""The references of a job under the policy of today, for whoever takes one up: a request, a redrive, a RESULT (R34)."""

from __future__ import annotations

from collections.abc import Mapping

from shared.access.references import ReferencePolicy, Workspace
from shared.core.plan import SYSTEM
from shared.errors import ConfigurationUnavailable
from shared.operations.context import Context


def wrong_references(context: Context, tenant: str, refs: Mapping[str, str]) -> list[tuple[str, str]]:
    """`(path, reason)` for each URI of `refs` that no job of the tenant may name today.

    Raises ConfigurationUnavailable where a store may restrict the tenant's further, and was never read.
    """
    settings = context.settings
    workspace = Workspace(settings.workspace_uri, SYSTEM, tenant)
    lists = [settings.allowed_ref_hosts]
    if context.ref_hosts is None:
        raise ConfigurationUnavailable
    if (own := context.ref_hosts.get(tenant)) is not None:
        lists.append(own)
    policies = [ReferencePolicy(settings.allowed_ref_schemes, hosts, workspace) for hosts in lists]
    reasons = {name: [policy.violation(uri) for policy in policies] for name, uri in refs.items()}
    return [(f"{name}.uri", why[0]) for name, found in reasons.items() if (why := [one for one in found if one])]
