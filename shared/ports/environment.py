"""The environment of a process: time, callers, and configuration that changes while the process runs."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

from shared.access.caller import Caller


class Clock(Protocol):
    """The current time."""

    def now(self) -> datetime:
        """Returns the time as a timezone-aware datetime in UTC."""


class Callers(Protocol):
    """The identification of callers by their requests."""

    async def caller(self, authorization: str | None) -> Caller:
        """Returns the caller by the `Authorization` header. Raises TokenMissing, TokenInvalid, TenantMissing,
        KeysUnavailable.
        """


#: prefix of every key of the app in the configuration store
CONFIGURATION_PREFIX = "lucius:"
#: key that an operator changes to make the app read the others again; without it they are read at every refresh
CONFIGURATION_SENTINEL = "lucius:sentinel"


class ConfigurationStore(Protocol):
    """The store of settings that can change while the app runs."""

    async def version(self) -> str | None:
        """Returns a value that changes when the keys must be read again. None means that the keys must always be read.
        Raises ConfigurationUnavailable.
        """

    async def read(self) -> dict[str, str]:
        """Reads every key without a label that begins with `lucius:`. Raises ConfigurationUnavailable."""
