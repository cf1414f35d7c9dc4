"""When a connection is given up, and when to look at it again. No clock of its own: seconds of any steady one go in."""

from __future__ import annotations

from dataclasses import dataclass

from servicebus_emulator.amqp.connection import IDLE_TIMEOUT_MS


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a peer may keep the broker waiting, in seconds."""

    handshake_s: float = 60.0
    """From the connection's beginning until AMQP's open."""
    silence_s: float = 2 * IDLE_TIMEOUT_MS / 1000
    """Without a byte. Twice what is advertised: the Python SDK is late with its heartbeats."""
    look_every_s: float = 30.0
    """The longest pause between two looks."""


DEFAULT_PATIENCE = Patience()


class Liveness:
    """One connection's signs of life."""

    def __init__(self, patience: Patience, now_s: float) -> None:
        self._patience = patience
        self._began_at_s = self._heard_at_s = now_s
        self.is_open = False

    def heard(self, now_s: float) -> None:
        """Bytes came."""
        self._heard_at_s = now_s

    def complaint(self, now_s: float) -> str | None:
        """Why the connection is to be given up now; None: it is not."""
        patience = self._patience
        if not self.is_open and now_s - self._began_at_s >= patience.handshake_s:
            return f"not open after {patience.handshake_s:g} s"
        if now_s - self._heard_at_s >= patience.silence_s:
            return f"silent for {patience.silence_s:g} s"
        return None

    def next_look_s(self, now_s: float, heartbeat_every_ms: int) -> float:
        """How long until the next look: in time for the peer's next heartbeat (0: it wants none) and for our limits."""
        patience = self._patience
        until = [patience.look_every_s, self._heard_at_s + patience.silence_s - now_s]
        if not self.is_open:
            until.append(self._began_at_s + patience.handshake_s - now_s)
        if heartbeat_every_ms:
            until.append(heartbeat_every_ms / 1000)
        return max(0.0, min(until))
