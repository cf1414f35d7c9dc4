"""Rates of starts per hour, in whole numbers, so that nothing is rounded (R50).

A credit is counted in units of 1/3,600,000,000 of a start. The credit grows by `max_per_hour` each microsecond, up to
`burst` starts. At most `max_per_hour + burst` jobs start in any hour. In h hours, at most `h x max_per_hour + burst`
jobs start.

Emergencies, and jobs that an operator admits, can exceed these numbers.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from shared.core.gates.rules import GateState, Rule, Throttle

#: cost of one start, in units of the credit
START = 3_600_000_000
_MICROSECOND = timedelta(microseconds=1)


def accrue(state: GateState, rule: Rule | None, now: datetime) -> GateState:
    """Returns the state with its credit at `now`. Adds nothing if `now` is before the last count."""
    spans = _split_spans(state, rule, now)
    if state.credit is None or state.credit_at is None:
        burst = _find_burst(rule, state.throttle if state.throttle and state.throttle.is_on(now) else None)
        return replace(state, credit=burst * START if burst is not None else None, credit_at=now)
    credit = state.credit
    for micros, per_hour, burst in spans:
        # keep the remainder below one microsecond, or each start of a burst of one would be a little later
        credit = min(credit + micros * per_hour, burst * START + per_hour - 1)
    return replace(state, credit=credit, credit_at=max(now, state.credit_at))


def spend(state: GateState, rule: Rule | None, now: datetime) -> GateState:
    """Returns the state after one start, or the same state if there is no rate."""
    at = accrue(state, rule, now)
    if at.credit is None or find_rate(at, rule, now) is None:
        return state
    return replace(at, credit=at.credit - START)


def find_next_start(state: GateState, rule: Rule | None, now: datetime) -> datetime | None:
    """Returns the time of the next allowed start. None means now."""
    at = accrue(state, rule, now)
    if at.credit is None or at.credit >= START:
        return None
    per_hour = find_rate(at, rule, now)
    if per_hour is None:
        return None
    # the clock of another process may be ahead of `now`: before that time, nothing is added
    counted_at = at.credit_at or now
    comes = counted_at + timedelta(microseconds=-(-(START - at.credit) // per_hour))
    throttle = state.throttle
    if throttle is None or throttle.until is None or not throttle.is_on(now) or comes <= throttle.until:
        return comes
    # the throttle ends before that; then the rule's own rate applies
    after = accrue(at, rule, throttle.until)
    if rule is None or rule.max_per_hour is None or after.credit is None or after.credit >= START:
        return throttle.until
    return throttle.until + timedelta(microseconds=-(-(START - after.credit) // rule.max_per_hour))


def find_rate(state: GateState, rule: Rule | None, now: datetime) -> int | None:
    """Returns the starts per hour at `now`, the smaller of the rule's rate and the throttle's rate. None means no
    limit.
    """
    throttle = state.throttle if state.throttle is not None and state.throttle.is_on(now) else None
    rates = [each.max_per_hour for each in (rule, throttle) if each is not None and each.max_per_hour is not None]
    return min(rates, default=None)


def _find_burst(rule: Rule | None, throttle: Throttle | None) -> int | None:
    """Returns the maximum number of starts at the same time, or None if no rate applies."""
    bursts = []
    if rule is not None and rule.max_per_hour is not None:
        bursts.append(rule.burst_tokens)
    if throttle is not None:
        bursts.append(Rule(max_per_hour=throttle.max_per_hour).burst_tokens)
    return min(bursts, default=None)


def _split_spans(state: GateState, rule: Rule | None, now: datetime) -> list[tuple[int, int, int]]:
    """Returns `(microseconds, starts per hour, burst)` for each span since the last count.

    A throttle that ended since the last count makes a second span.
    """
    if state.credit_at is None or now <= state.credit_at:
        return []
    ends = [now]
    throttle = state.throttle
    if throttle is not None and throttle.until is not None and state.credit_at < throttle.until < now:
        ends = [throttle.until, now]
    spans, at = [], state.credit_at
    for end in ends:
        per_hour = find_rate(state, rule, at)
        burst = _find_burst(rule, throttle if throttle is not None and throttle.is_on(at) else None)
        if per_hour is not None and burst is not None:
            spans.append(((end - at) // _MICROSECOND, per_hour, burst))
        at = end
    return spans
