"""Checks a job's references against the present policy, for a request, a redrive or a RESULT (R34, R46)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shared.access.references import ReferencePolicy, credential_member
from shared.contracts.messages import Reply, ReplyError
from shared.core.jobs.plan import Workspace
from shared.core.jobs.reasons import Reason
from shared.errors import ConfigurationUnavailable
from shared.operations.process.context import Context

#: a host that no URI has, so that a policy with this list allows only the tenant's own workspace
_NOWHERE = frozenset({"nowhere.invalid"})
#: maximum length of a field's name in an error
_SHOWN = 40
_CREDENTIAL = "must not contain a credential; give the service a role of its own"


def wrong_references(context: Context, tenant: str, refs: Mapping[str, Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Returns `(path, reason)` for each URI of `refs` that the present policy forbids to jobs of the tenant.

    Also returns such a pair for the first other field with a credential in each reference, since every reader of the
    job can see it. Raises ConfigurationUnavailable if a store may restrict the tenant further and was never read.
    """
    settings = context.settings
    workspace = Workspace(settings.workspace_uri, tenant)

    def violations(hosts: frozenset[str], listed_in: str = "LUCIUS_ALLOWED_REF_HOSTS") -> dict[str, str]:
        policy = ReferencePolicy(settings.allowed_ref_schemes, hosts, workspace, listed_in)
        return {name: why for name, ref in refs.items() if (why := policy.violation(ref["uri"])) is not None}

    found = violations(settings.allowed_ref_hosts)
    if context.ref_hosts is None:
        if violations(_NOWHERE).keys() - found.keys():
            raise ConfigurationUnavailable
    elif (own := context.ref_hosts.get(tenant)) is not None:
        found = violations(own, f"lucius:tenants:{tenant}:ref_hosts of App Configuration") | found
    wrong = [(f"{name}.uri", found[name]) for name in refs if name in found]
    members = [(name, member) for name, ref in refs.items() if (member := credential_member(ref)) is not None]
    return wrong + [(f"{name}.{member[:_SHOWN]}", _CREDENTIAL) for name, member in members]


def with_allowed_result(context: Context, tenant: str, reply: Reply) -> Reply:
    """Returns the reply. A RESULT with forbidden references keeps only the allowed references.

    Such a RESULT that SUCCEEDED becomes FAILED_FINAL without a `result_ref`, since `result_ref` is the next
    service's `input_ref` and `output_ref` is the caller's `final_output`. Raises ConfigurationUnavailable.
    """
    artifacts = {f"artifacts.{index}": each for index, each in enumerate(reply.artifacts or ())}
    given = (("result_ref", reply.result_ref), ("output_ref", reply.output_ref))
    refs: dict[str, dict[str, Any]] = {name: ref.model_dump() for name, ref in given if ref}
    refs |= {name: {"uri": each.uri} for name, each in artifacts.items()}
    wrong = wrong_references(context, tenant, refs) if refs else []
    if not wrong:
        return reply
    refused = {name for name in refs for path, _ in wrong if path.startswith(f"{name}.")}
    kept: dict[str, Any] = {name: None for name in ("result_ref", "output_ref") if name in refused}
    if artifacts:
        kept["artifacts"] = [each for name, each in artifacts.items() if name not in refused]
    if reply.status == "SUCCEEDED":
        path, why = wrong[0]
        error = ReplyError(code=Reason.RESULT_REF_REFUSED.value, message=f"{path} {why}")
        kept |= {"status": "FAILED_FINAL", "error": error, "result_ref": None}
    return reply.model_copy(update=kept)
