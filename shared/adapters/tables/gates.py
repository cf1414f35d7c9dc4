"""Converts quotas to JSON fields and back."""

from __future__ import annotations

from dataclasses import asdict, replace
from datetime import datetime
from typing import Any

from shared.adapters.tables.breakers import breaker_json, breaker_of
from shared.adapters.tables.columns import select_known
from shared.core.gates.breaker import BreakerRule
from shared.core.gates.rules import Gate, GateKind, GateState, Hold, Rule, Throttle

_KINDS = frozenset(GateKind)


def gate_json(state: GateState) -> dict[str, Any]:
    values = asdict(replace(state, breaker=None)) | {"breaker": breaker_json(state.breaker)}
    return {name: value for name, value in values.items() if value is not None}


#: members that a change replaces completely, including parts of a later release
SET_AS_A_WHOLE = ("rule", "hold", "throttle")


def is_known(values: dict[str, Any]) -> bool:
    """Returns True if this release knows the kind of the quota. A quota of an unknown kind stops no job in this
    release.
    """
    return values["gate"]["kind"] in _KINDS


def rule_of(values: dict[str, Any]) -> Rule:
    breaker = values.get("breaker")
    known = select_known(Rule, values)
    return Rule(
        **{**known, "breaker": BreakerRule(**select_known(BreakerRule, breaker)) if breaker is not None else None}
    )


def gate_of(values: dict[str, Any]) -> GateState:
    gate = Gate(GateKind(values["gate"]["kind"]), values["gate"]["tenant"], values["gate"]["name"])
    known = {name: values[name] for name in ("rule_seq", "credit", "log_seq", "log_hash") if name in values}
    return GateState(
        gate=gate,
        rule=rule_of(values["rule"]) if "rule" in values else None,
        hold=Hold(**select_known(Hold, _instants(values["hold"]))) if "hold" in values else None,
        throttle=Throttle(**select_known(Throttle, _instants(values["throttle"]))) if "throttle" in values else None,
        credit_at=decode_instant(values.get("credit_at")),
        breaker=breaker_of(values["breaker"]) if "breaker" in values else None,
        **known,
    )


def _instants(values: dict[str, Any]) -> dict[str, Any]:
    return {**values, "at": decode_instant(values["at"]), "until": decode_instant(values.get("until"))}


def decode_instant(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text is not None else None
