"""A job's references under the policy of today, for whoever takes one up: a request, a redrive, a RESULT (R34, R46)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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
    """The reply as it is; a RESULT that leads where no reference of the tenant may keeps only those that may.

    One that SUCCEEDED is then FAILED_FINAL: its `result_ref` would be the next service's `input_ref`, its `output_ref`
    the caller's `final_output`. Raises ConfigurationUnavailable.
    """
    artifacts = {f"artifacts.{index}": each for index, each in enumerate(reply.artifacts or ())}
    refs = {name: ref.uri for name, ref in (("result_ref", reply.result_ref), ("output_ref", reply.output_ref)) if ref}
    refs |= {name: each.uri for name, each in artifacts.items()}
    wrong = wrong_references(context, tenant, refs) if refs else []
    if not wrong:
        return reply
    refused = {path.removesuffix(".uri") for path, _ in wrong}
    kept: dict[str, Any] = {name: None for name in ("result_ref", "output_ref") if name in refused}
    if artifacts:
        kept["artifacts"] = [each for name, each in artifacts.items() if name not in refused]
    if reply.status == "SUCCEEDED":
        path, why = wrong[0]
        error = ReplyError(code=Reason.RESULT_REF_REFUSED.value, message=f"{path} {why}")
        kept |= {"status": "FAILED_FINAL", "error": error, "result_ref": None}
    return reply.model_copy(update=kept)
