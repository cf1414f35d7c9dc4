"""How long a silent connection is borne, by a clock that is told the time."""

from __future__ import annotations

from servicebus_emulator.liveness import Liveness, Timeouts


def test_a_connection_that_never_opens_is_given_up_after_a_minute() -> None:
    """Bytes that trickle in do not prolong the handshake."""
    liveness = Liveness(Timeouts(), 1000.0)
    for second in range(1000, 1060):
        liveness.record_received(float(second))
        assert liveness.timeout_reason(float(second)) is None
    assert liveness.timeout_reason(1060.0) == "not open after 60 s"


def test_an_open_connection_may_be_silent_for_four_minutes() -> None:
    """Twice the time-out that is advertised, counted from the last byte."""
    liveness = Liveness(Timeouts(), 0.0)
    liveness.is_open = True
    liveness.record_received(100.0)
    assert liveness.timeout_reason(339.9) is None
    assert liveness.timeout_reason(340.0) == "silent for 240 s"
    liveness.record_received(340.0)
    assert liveness.timeout_reason(579.0) is None


def test_the_next_look_is_in_time_for_what_comes_first() -> None:
    """The peer's heartbeat, the end of the handshake, the end of patience, else every 30 seconds."""
    liveness = Liveness(Timeouts(), 0.0)
    assert liveness.next_check_s(0.0, 0) == 30
    assert liveness.next_check_s(45.0, 0) == 15
    liveness.is_open = True
    assert liveness.next_check_s(45.0, 0) == 30
    assert liveness.next_check_s(45.0, 20_000) == 20
    assert liveness.next_check_s(235.0, 20_000) == 5
    assert liveness.next_check_s(241.0, 0) == 0
