"""When a connection is given up, and when to look at it again. No clock of its own: seconds of any steady one go in."""

from __future__ import annotations

from dataclasses import dataclass

from servicebus_emulator.amqp.connection import IDLE_TIMEOUT_MS


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long a peer may keep the broker waiting, in seconds."""

    handshake_timeout_s: float = 60.0
    """From the connection's beginning until AMQP's open."""
    idle_timeout_s: float = 2 * IDLE_TIMEOUT_MS / 1000
    """Without a byte. Twice what is advertised: the Python SDK is late with its heartbeats."""
    check_every_s: float = 30.0
    """The longest pause between two looks."""


DEFAULT_TIMEOUTS = Timeouts()


class Liveness:
    """One connection's signs of life."""

    def __init__(self, timeouts: Timeouts, now_s: float) -> None:
        self._timeouts = timeouts
        self._connected_at_s = self._received_at_s = now_s
        self.is_open = False

    def record_received(self, now_s: float) -> None:
        """Bytes came."""
        self._received_at_s = now_s

    def timeout_reason(self, now_s: float) -> str | None:
        """Why the connection is to be given up now; None: it is not."""
        timeouts = self._timeouts
        if not self.is_open and now_s - self._connected_at_s >= timeouts.handshake_timeout_s:
            return f"not open after {timeouts.handshake_timeout_s:g} s"
        if now_s - self._received_at_s >= timeouts.idle_timeout_s:
            return f"silent for {timeouts.idle_timeout_s:g} s"
        return None

    def next_check_s(self, now_s: float, heartbeat_every_ms: int) -> float:
        """How long until the next look: in time for the peer's next heartbeat (0: it wants none) and for our limits."""
        timeouts = self._timeouts
        until = [timeouts.check_every_s, self._received_at_s + timeouts.idle_timeout_s - now_s]
        if not self.is_open:
            until.append(self._connected_at_s + timeouts.handshake_timeout_s - now_s)
        if heartbeat_every_ms:
            until.append(heartbeat_every_ms / 1000)
        return max(0.0, min(until))
