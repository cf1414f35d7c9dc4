"""`LUCIUS_AUTH_MODE=none`: whoever reaches the port of a laptop may do everything."""

from __future__ import annotations

from shared.access.caller import ANYONE, Caller


class AnonymousCallers:
    """See `shared.ports.environment.Callers`."""

    async def caller(self, authorization: str | None) -> Caller:
        return ANYONE
