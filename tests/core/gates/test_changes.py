"""Changes of a quota: members of a rule, and rights to end a hold or a throttle (R48)."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from shared.core.gates import changes
from shared.core.gates.breaker import BreakerRule
from shared.core.gates.changes import ChangeType, apply_hold, apply_patch, apply_resume, apply_throttle, record_change
from shared.core.gates.rate import START, spend
from shared.core.gates.rules import Directory, Gate, GateKind, GateState, Hold, Rule, Throttle
from shared.refusals import QuotaForbidden, QuotaInvalid

NOW = datetime(2026, 1, 1, tzinfo=UTC)
TENANT = GateState(gate=Gate(GateKind.TENANT, "tenant_a"))
OCR = GateState(gate=Gate(GateKind.TYPE, "tenant_a", "OCR"))
SCANNER = GateState(gate=Gate(GateKind.SOURCE, "tenant_a", "scanner"))
OCR_OF_ALL = GateState(gate=Gate.over_all(GateKind.PLATFORM_TYPE, "OCR"))
QUARTER = Rule(breaker=BreakerRule(failure_rate=0.25, cooldown_s=30))
FEWER = BreakerRule(failure_rate=0.25, min_calls=5)
RATED = Rule(max_active=2, burst=5, max_per_hour=60)


@pytest.mark.parametrize(
    ("rule", "patch", "expected"),
    [
        (
            Rule(max_active=2, burst=5, max_per_hour=60),
            {"max_active": None, "max_per_hour": 30},
            Rule(burst=5, max_per_hour=30),
        ),
        (None, {"breaker": {}}, Rule(breaker=BreakerRule())),
        (
            QUARTER,
            {"breaker": {"min_calls": 5, "cooldown_s": None}},
            Rule(breaker=BreakerRule(failure_rate=0.25, min_calls=5)),
        ),
        (QUARTER, {"breaker": None}, Rule()),
        (QUARTER, {"breaker": {"cooldown_s": 30}}, QUARTER),
    ],
)
def test_a_patch_merges_into_the_rule(rule: Rule | None, patch: dict[str, Any], expected: Rule) -> None:
    """RFC 7396, also inside a breaker: null removes a member, and an omitted member stays."""
    state = replace(OCR, rule=rule)
    after = apply_patch(state, patch)
    assert (after.rule, after is state) == (expected, rule == expected)


@pytest.mark.parametrize(
    ("state", "patch"),
    [
        (TENANT, {"burst": 3}),
        (TENANT, {"breaker": {}}),
        (OCR, {"max_staged": 3}),
        (OCR, {"breaker": {"min_tenants": 2}}),
        (SCANNER, {"emergency_max_active": 3}),
        (GateState(gate=Gate.over_all(GateKind.PLATFORM)), {"breaker": {}}),
        (GateState(gate=Gate.over_all(GateKind.MODE, "BURST")), {"breaker": {}}),
        (OCR_OF_ALL, {"weight": 2}),
        (OCR_OF_ALL, {"max_staged": 2}),
    ],
)
def test_a_rule_without_a_meaning_is_refused(state: GateState, patch: dict[str, Any]) -> None:
    with pytest.raises(QuotaInvalid):
        apply_patch(state, patch)


def test_a_breaker_over_all_tenants_can_name_its_tenants() -> None:
    assert apply_patch(OCR_OF_ALL, {"breaker": {"min_tenants": 3}}).rule == Rule(breaker=BreakerRule(min_tenants=3))


def test_a_tenants_own_callers_end_what_they_began() -> None:
    """They hold and throttle. They neither end nor shorten an operator's hold or throttle."""

    def hold(*, own: bool, minutes: int | None = None) -> Hold:
        until = NOW + timedelta(minutes=minutes) if minutes is not None else None
        return Hold(reason="x", actor="a", at=NOW, until=until, own=own)

    def throttle(*, own: bool) -> Throttle:
        return Throttle(reason="x", actor="a", at=NOW, max_per_hour=5, own=own)

    assert apply_resume(apply_hold(TENANT, hold(own=True), NOW), NOW, own=True) == TENANT
    held = apply_hold(TENANT, hold(own=False, minutes=60), NOW)
    with pytest.raises(QuotaForbidden):
        apply_resume(held, NOW, own=True)
    with pytest.raises(QuotaForbidden):
        apply_hold(held, hold(own=True), NOW)
    assert apply_hold(held, hold(own=True, minutes=1), NOW) is held
    assert apply_resume(apply_throttle(held, throttle(own=True), NOW), NOW, own=True) == held
    throttled = apply_throttle(held, throttle(own=False), NOW)
    with pytest.raises(QuotaForbidden):
        apply_throttle(throttled, replace(throttle(own=True), max_per_hour=50), NOW)
    assert changes.is_set(apply_resume(throttled, NOW, own=False), NOW) is False


def test_a_changed_rate_keeps_what_was_earned() -> None:
    """The old rate settles the credit: twenty changes earn nothing."""
    state = replace(TENANT, rule=Rule(max_per_hour=60, burst=1))
    state = spend(state, state.rule, NOW)
    for number in range(20):
        after = replace(state, rule=Rule(max_per_hour=(3600, 60)[number % 2], burst=1))
        at = NOW + timedelta(seconds=30)
        state, _ = record_change(state, after, Directory(), ChangeType.RULE_SET, actor="a", reason="x", at=at)
    assert state.credit == START // 2
