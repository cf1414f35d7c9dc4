"""Which gate a request means: by its names, or by its id within a tenant (R48)."""

from __future__ import annotations

from collections.abc import Iterable

from shared.core.canonical import MAX_KEY, encode_key
from shared.core.gates.changes import gate_named
from shared.core.gates.rules import EVERY, Gate, GateKind
from shared.core.jobs.routing import PLATFORM, normalise
from shared.operations.context import Context
from shared.refusals import GateNotFound, GateUnclear, QuotaInvalid

_MODES = ("DEFAULT", "BURST")


def over_all(context: Context, name: str) -> Gate:
    """A gate over all tenants by its name: `platform`, `mode:BURST`, `type:OCR`, `service:OCR`, `lane:3`.

    Raises GateNotFound.
    """
    if (found := next((gate for gate in _all_of(context) if gate.words == name), None)) is None:
        raise GateNotFound(f"{name}: there are platform, mode:M, type:T, service:S and lane:N")
    return found


def over_all_of_id(context: Context, gate_id: str) -> Gate | None:
    """None: it is of a tenant, or of nobody."""
    return next((gate for gate in _all_of(context) if gate.id == gate_id), None)


def _all_of(context: Context) -> list[Gate]:
    kinds: dict[GateKind, Iterable[str]] = {
        GateKind.PLATFORM: ("",),
        GateKind.MODE: _MODES,
        GateKind.PLATFORM_TYPE: context.registry.request_types,
        GateKind.SERVICE: sorted({step.service for protocol in context.registry for step in protocol.definition.steps}),
        GateKind.LANE: map(str, range(context.settings.lanes)),
    }
    return [Gate.over_all(kind, name) for kind, names in kinds.items() for name in names]


async def find_gate(
    context: Context, tenant: str, *, job_type: str | None = None, source: str | None = None, gate_id: str | None = None
) -> Gate:
    """The gate of the names; one of a source that no job named yet is there as well. With `gate_id` alone one of the
    tenant's own, of its job types, or one for which something is set.

    Raises GateUnclear, GateNotFound, QuotaInvalid, LedgerUnavailable.
    """
    if job_type is not None and source is not None:
        raise GateUnclear
    tenant, source = normalise(tenant), normalise(source) if source is not None else None
    if not tenant or tenant == PLATFORM or len(encode_key(tenant)) > MAX_KEY:
        raise QuotaInvalid(("tenant", "is blank, no tenant's name, or too long for a key"))
    if tenant == EVERY and source is not None:
        raise QuotaInvalid(("source", "has no rule for every tenant"))
    if job_type is not None or source is not None or gate_id is None:
        gate = gate_named(tenant, job_type, source or None)
        if (gate_id is None or gate.id == gate_id) and await _is_known(context, gate):
            return gate
        raise GateNotFound(gate_id or gate.words)
    types = [*context.registry.request_types, *([EVERY] if tenant == EVERY else [])]
    possible = [Gate(GateKind.TENANT, tenant), *(Gate(GateKind.TYPE, tenant, each) for each in types)]
    if (found := next((gate for gate in possible if gate.id == gate_id), None)) is not None:
        return found
    stored = await context.desks.read(tenant)
    if stored is None or gate_id not in stored.desk.gates:
        raise GateNotFound(f"{gate_id} of tenant {tenant}: name it by tenant and type, or tenant and source")
    return stored.desk.gates[gate_id].gate


async def _is_known(context: Context, gate: Gate) -> bool:
    """A type that no protocol has is a mistake, unless its gate is there already."""
    if gate.kind is not GateKind.TYPE or gate.name in context.registry.request_types:
        return True
    if gate.tenant == EVERY and gate.name == EVERY:
        return True
    stored = await context.desks.read(gate.tenant)
    return stored is not None and gate.id in stored.desk.gates
