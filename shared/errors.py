"""Every error of ours, told apart by whose fault it is and whether trying again helps.

An error carries its data as attributes; the docstring is its default message.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class LuciusError(Exception):
    """Something went wrong."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or (self.__doc__ or "").splitlines()[0])


class SettingsError(LuciusError):
    """A setting is missing or wrong; the message names it."""


class ProtocolError(LuciusError):
    """A protocol definition is wrong; the message names the file and the place."""


class Transient(LuciusError):
    """A dependency is not there at the moment: the same call may go through later."""


class LedgerUnavailable(Transient):
    """The ledger's tables do not answer."""


class PublishUnavailable(Transient):
    """The bus does not take the directive."""


class BusUnavailable(Transient):
    """The bus cannot be looked at."""


class ConfigurationUnavailable(Transient):
    """The configuration store does not answer."""


class OrchestrationUnavailable(Transient):
    """The durable client does not answer."""


class KeysUnavailable(Transient):
    """The issuer's keys cannot be fetched."""


class LedgerRefused(LuciusError):
    """The ledger refused a row for good (a 400): the same write will never go through."""


class Conflict(LuciusError):
    """Somebody else moved the rows since they were read."""


class AlreadyExists(LuciusError):
    """The row is there already."""


class LimitReached(LuciusError):
    """The tenant has as many active jobs as it may have."""


class InstanceNotFound(LuciusError):
    """The durable engine knows no such instance."""


class InstanceEnded(LuciusError):
    """The orchestration has ended and takes no events."""


class ReplyUnfit(LuciusError):
    """A reply that no job can take."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        #: a stable code
        self.reason = reason
        self.detail = detail


class Refusal(LuciusError):
    """A request that cannot be served as it is; becomes problem+json (RFC 9457)."""

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        *,
        errors: Sequence[tuple[str, str]] = (),
        headers: dict[str, str] | None = None,
        **extra: Any,
    ) -> None:
        super().__init__(detail)
        self.status = status
        #: stable, for programs
        self.code = code
        self.detail = detail
        #: (path, message) of each thing that is wrong
        self.errors = tuple(errors)
        self.headers = headers or {}
        #: further members of the problem
        self.extra = extra
