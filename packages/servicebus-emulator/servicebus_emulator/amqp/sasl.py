"""The SASL layer before AMQP (AMQP 1.0 part 5, 5.3), server side."""

from __future__ import annotations

from collections.abc import Callable

from servicebus_emulator.amqp.performatives import SaslInit, SaslMechanisms, SaslOutcome

#: What both SDKs use is ANONYMOUS; authorisation comes later, by tokens on `$cbs`.
MECHANISMS = ("MSSBCBS", "PLAIN", "ANONYMOUS", "EXTERNAL")
OK, AUTH_FAILED = 0, 1

Authenticate = Callable[[str, bytes], bool]
"""Takes the mechanism and the initial response; says whether the peer may go on."""


def mechanisms() -> SaslMechanisms:
    return SaslMechanisms(MECHANISMS)


def outcome_of(init: SaslInit, authenticate: Authenticate) -> SaslOutcome:
    """The outcome for a peer's choice."""
    known = init.mechanism in MECHANISMS
    accepted = known and authenticate(init.mechanism, init.initial_response or b"")
    return SaslOutcome(OK if accepted else AUTH_FAILED)
