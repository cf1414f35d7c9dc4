"""What a process is given: the time, its callers, configuration that changes while it runs."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

from shared.access.caller import Caller


class Clock(Protocol):
    """The time of day."""

    def now(self) -> datetime:
        """Returns an aware UTC instant."""


class Callers(Protocol):
    """The callers of requests."""

    async def caller(self, authorization: str | None) -> Caller:
        """Returns the caller by the `Authorization` header. Raises TokenMissing, TokenInvalid, TenantMissing,
        KeysUnavailable.
        """


#: every key of the app in the configuration store begins with this
CONFIGURATION_PREFIX = "lucius:"
#: changed by an operator, it makes the app read the other keys again; without it they are read at every refresh
CONFIGURATION_SENTINEL = "lucius:sentinel"


class ConfigurationStore(Protocol):
    """Settings that change while the app runs."""

    async def version(self) -> str | None:
        """Changes when the others are to be read again; None: always. Raises ConfigurationUnavailable."""

    async def read(self) -> dict[str, str]:
        """Reads every key that begins with `lucius:`. Raises ConfigurationUnavailable."""
