"""The references of a job under the policy of today, for whoever takes one up: a request, a redrive, a RESULT (R34)."""

from __future__ import annotations

from collections.abc import Mapping

from shared.access.references import ReferencePolicy
from shared.contracts.messages import Reply, ReplyError
from shared.core.plan import Workspace
from shared.core.reasons import Reason
from shared.errors import ConfigurationUnavailable
from shared.operations.context import Context

#: no URI leads there, so that a policy with this list allows the tenant's own workspace alone
_NOWHERE = frozenset({"nowhere.invalid"})


def wrong_references(context: Context, tenant: str, refs: Mapping[str, str]) -> list[tuple[str, str]]:
    """`(path, reason)` for each URI of `refs` that no job of the tenant may name today.

    Raises ConfigurationUnavailable where a store may restrict the tenant's further, and was never read.
    """
    settings = context.settings
    workspace = Workspace(settings.workspace_uri, tenant)

    def violations(hosts: frozenset[str]) -> dict[str, str]:
        policy = ReferencePolicy(settings.allowed_ref_schemes, hosts, workspace)
        return {name: why for name, uri in refs.items() if (why := policy.violation(uri)) is not None}

    found = violations(settings.allowed_ref_hosts)
    if context.ref_hosts is None:
        if violations(_NOWHERE).keys() - found.keys():
            raise ConfigurationUnavailable
    elif (own := context.ref_hosts.get(tenant)) is not None:
        found = violations(own) | found
    return [(f"{name}.uri", found[name]) for name in refs if name in found]


def with_allowed_result(context: Context, tenant: str, reply: Reply) -> Reply:
    """The reply as it is; FAILED_FINAL for a RESULT that leads where no reference of the tenant may.

    Its `result_ref` would be the next service's `input_ref` and the caller's `final_output`. Raises
    ConfigurationUnavailable.
    """
    if reply.type != "RESULT" or reply.status != "SUCCEEDED" or reply.result_ref is None:
        return reply
    wrong = wrong_references(context, tenant, {"result_ref": reply.result_ref.uri})
    if not wrong:
        return reply
    [(path, why)] = wrong
    error = ReplyError(code=Reason.RESULT_REF_REFUSED.value, message=f"{path} {why}")
    return reply.model_copy(update={"status": "FAILED_FINAL", "error": error, "result_ref": None})
