"""Errors of LUCIUS that do not refuse a request, with their cause and the effect of another try (R28).

An error carries its data as attributes. The first line of an error's docstring is its default message.
`shared.refusals` has the errors that refuse a request. `triggers.http.problems` has the response to each error.
"""

from __future__ import annotations

from typing import Any

#: maximum characters of an invalid value in a message
_EXCERPT = 40
_JSON_TYPES = {bool: "boolean", int: "number", float: "number", str: "string", list: "array", type(None): "null"}


def excerpt(value: Any) -> str:
    """Returns the `repr` of an invalid value for a message, cut to 40 characters."""
    text = repr(value)
    return text if len(text) <= _EXCERPT else f"{text[: _EXCERPT - 3]}..."


def json_type(value: Any) -> str:
    """Returns the JSON type of a parsed value, such as `array`."""
    return _JSON_TYPES.get(type(value), "object")


class LuciusError(Exception):
    """Internal error."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or (self.__doc__ or "").splitlines()[0])


class SettingsError(LuciusError):
    """A setting is missing or wrong; the message names it."""


class ProtocolError(LuciusError):
    """A protocol definition is wrong; the message names the file and the position."""


class Transient(LuciusError):
    """The call failed; a later call may succeed."""


class Interrupted(Transient):
    """A call had no response in time, or its client cancelled it."""


class LedgerUnavailable(Transient):
    """The ledger's tables or blobs cannot be read or written now."""


class JobVanished(LedgerUnavailable):
    """The rows of a job no longer exist: the job was archived or purged meanwhile."""


class OtherStoreVersion(LedgerUnavailable):
    """This release cannot read the store: another release wrote it, or its restore is not complete."""

    #: version of a store while a restore runs, and after a restore that did not end
    RESTORING = 0

    def __init__(self, found: object, needed: int) -> None:
        super().__init__(
            "the restore of the ledger's tables has not ended; wait until it ends, or run it again"
            if found == self.RESTORING
            else f"the ledger's tables have version {found}, but this release needs version {needed}; on a laptop, run "
            "`make reset`, which clears the tables. In a deployment, set new names in LUCIUS_LEDGER_TABLE, "
            "LUCIUS_INDEX_TABLE, LUCIUS_TENANTS_TABLE, LUCIUS_GATES_TABLE, LUCIUS_REJECTED_TABLE and LUCIUS_FEED_TABLE"
        )


class UnknownStatus(Transient):
    """A job has a status that only a later release knows."""

    def __init__(self, status: str = "", tenant_id: str | None = None) -> None:
        super().__init__(f"the status {status} of a job is from a later release")
        self.status = status
        #: tenant of the job; None if not known
        self.tenant_id = tenant_id


class Contended(Transient):
    """Other processes changed the same rows at every try, but the tables respond."""


class CreationWithdrawn(Transient):
    """The creation of this job took too long and was withdrawn; send the request again."""


class RunsUnavailable(Transient):
    """The storage of runs cannot be read now."""


class PublishUnavailable(Transient):
    """The bus does not accept the directive."""


class BusUnavailable(Transient):
    """A call to the bus failed."""


class CountsForbidden(BusUnavailable):
    """requires role Azure Service Bus Data Owner (Bicep: targetBasedScaling = true) to read counts; or use a hold"""


class ConfigurationUnavailable(Transient):
    """The configuration store cannot be read now."""


class OrchestrationUnavailable(Transient):
    """A call of the durable client failed."""


class KeysUnavailable(Transient):
    """The issuer's keys cannot be fetched."""


class KeyUnavailable(Transient):
    """The signing key of heads is missing, or cannot sign now."""


class LedgerRefused(LuciusError):
    """The ledger refused a row permanently (a 400 or 413, or a value that fits no column); no other try can succeed."""


class DataLost(LedgerRefused):
    """A blob of a job, a message, the archive or an export no longer exists; no other try can restore it."""

    def __init__(self, blob: str, tenant_id: str | None = None) -> None:
        super().__init__(f"the blob {blob} of the ledger is gone")
        self.blob = blob
        #: tenant of the job or message; None if not known
        self.tenant_id = tenant_id


class Undecodable(LedgerRefused):
    """A row cannot be decoded: a later release wrote it, or it is broken."""

    def __init__(self, row: str, why: str, tenant_id: str | None = None) -> None:
        super().__init__(f"the row {row} cannot be decoded: {why}")
        self.row = row
        self.why = why
        #: tenant of the row; None if not known
        self.tenant_id = tenant_id


class ExportUnfit(LuciusError):
    """The export cannot be restored, or cannot be restored into these tables. The message has the next step."""


class ExportLate(LuciusError):
    """An export of the tables was not complete in time, and was dropped."""


class Conflict(LuciusError):
    """The rows were changed since they were read."""


class AlreadyExists(LuciusError):
    """The row already exists."""


class InstanceNotFound(LuciusError):
    """The durable engine has no such instance."""


class InstanceEnded(LuciusError):
    """The orchestration has ended and accepts no events."""


class ReplyUnfit(LuciusError):
    """No job can accept the reply."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        #: stable code of the reason
        self.reason = reason
        self.detail = detail
