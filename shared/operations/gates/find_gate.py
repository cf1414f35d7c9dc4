"""Finds the quota that a request names, by names or by an id within a tenant (R48)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from shared.core.gates.rules import EVERY, OVER_ALL, OVER_ALL_EXAMPLES, PARTS, Gate, GateKind
from shared.core.jobs.routing import PLATFORM, normalise
from shared.core.records.canonical import MAX_KEY, encode_key
from shared.errors import excerpt
from shared.operations.process.context import Context
from shared.refusals import GateNotFound, GateUnclear, QuotaInvalid

#: possible names of quotas by `GateKind.key`; a missing key accepts every text
_NAMES: dict[str, Callable[[Context], Iterable[str]]] = {
    "": lambda context: ("",),
    "mode": lambda context: ("DEFAULT", "BURST"),
    "job_type": lambda context: context.registry.request_types,
    "service": lambda context: sorted(
        {step.service for protocol in context.registry.every_version for step in protocol.definition.steps}
    ),
    "lane": lambda context: map(str, range(context.settings.lanes)),
}


def find_platform_gate(context: Context, name: str) -> Gate:
    """Returns the quota over all tenants with this name, such as `platform` or `mode:BURST`. Raises GateNotFound."""
    if (found := next((gate for gate in _list_platform_gates(context) if gate.display_name == name), None)) is None:
        raise GateNotFound(f"{name}; use the name of a quota over all tenants, such as {', '.join(OVER_ALL_EXAMPLES)}")
    return found


def find_platform_gate_by_id(context: Context, gate_id: str) -> Gate | None:
    """Returns the quota over all tenants with this id, or None if no quota over all tenants has it."""
    return next((gate for gate in _list_platform_gates(context) if gate.id == gate_id), None)


def _list_platform_gates(context: Context) -> list[Gate]:
    return [Gate.over_all(kind, name) for kind in OVER_ALL for name in _NAMES[kind.key](context)]


async def find_gate(context: Context, tenant: str, *, gate_id: str | None = None, **names: str | None) -> Gate:
    """Returns the tenant's quota, or the quota of the name in `names`. The key is `GateKind.key`, as in
    `job_type="OCR"`.

    A source without jobs has a quota as well. `gate_id` alone finds the tenant's own quota, one of its job types, or
    one with a setting. Raises GateUnclear, GateNotFound, QuotaInvalid, LedgerUnavailable.
    """
    given = {kind: name for kind in PARTS if (name := names.get(kind.key)) is not None}
    if len(given) > 1:
        raise GateUnclear
    tenant = normalise(tenant)
    if not tenant or tenant == PLATFORM or len(encode_key(tenant)) > MAX_KEY:
        raise QuotaInvalid(("tenant", f"must be a valid tenant name, not {excerpt(tenant)}"))
    own = Gate(GateKind.TENANT, tenant)
    if given or gate_id is None:
        gate = next((_make_gate(tenant, kind, name) for kind, name in given.items()), own)
        if (gate_id is None or gate.id == gate_id) and await _is_known(context, gate):
            return gate
        raise GateNotFound(f"{(gate_id or gate.display_name)[:250]}; check the names and the tenant")
    every = [EVERY] if tenant == EVERY else []
    closed = [(kind, _NAMES[kind.key](context)) for kind in PARTS if kind.key in _NAMES]
    possible = [own, *(Gate(kind, tenant, name) for kind, known in closed for name in (*known, *every))]
    if (found := next((gate for gate in possible if gate.id == gate_id), None)) is not None:
        return found
    stored = await context.admissions.read(tenant)
    if stored is None or gate_id not in stored.admission.gates:
        raise GateNotFound(f"{gate_id} of tenant {tenant}; check the id, or add the parameter type or source")
    return stored.admission.gates[gate_id].gate


def _make_gate(tenant: str, kind: GateKind, name: str) -> Gate:
    if kind.key in _NAMES:
        return Gate(kind, tenant, name)
    if tenant == EVERY:
        raise QuotaInvalid((kind.key, "must not be combined with tenant *, which sets the limits of every tenant"))
    return Gate(kind, tenant, normalised) if (normalised := normalise(name)) else Gate(GateKind.TENANT, tenant)


async def _is_known(context: Context, gate: Gate) -> bool:
    """Returns `True` if the name can have a quota. A job type without a protocol has a quota only if the quota is
    already set.
    """
    if (names := _NAMES.get(gate.kind.key)) is None or gate.name in names(context):
        return True
    if gate.tenant == EVERY and gate.name == EVERY:
        return True
    stored = await context.admissions.read(gate.tenant)
    return stored is not None and gate.id in stored.admission.gates
