"""Exit codes of `lucius`, and the errors with these codes."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Any

from lucius_client import (
    BadAddress,
    LuciusError,
    NoResult,
    NotLucius,
    Refused,
    ResultForbidden,
    ResultGone,
    StoreUnreachable,
    Unauthenticated,
    Unreachable,
)


class Exit(IntEnum):
    """The exit codes, for scripts."""

    OK = 0
    #: a job ended FAILED_FINAL or CANCELLED, a check, a delivery or an item of a bulk operation failed, compared jobs
    #: differ, an export lacks data, or a problem needs an operator
    NOT_WELL = 1
    #: an invalid option or file, a broken bundle, an unreadable result, or an expired login
    USAGE = 2
    #: the API responded with a problem, the token issuer or the store of a result refused the request, the job has no
    #: result, or no named key signed the bundle
    REFUSED = 3
    #: the API, the blob store or the token issuer does not respond, or the blob store refused an upload
    UNREACHABLE = 4
    #: Ctrl-C, as shells report it
    INTERRUPTED = 130


class CliError(Exception):
    """A message for the user, and the exit code."""

    exit = Exit.USAGE

    def __init__(self, text: str, exit_: Exit | None = None) -> None:
        super().__init__(text)
        self.exit = exit_ if exit_ is not None else type(self).exit


class UsageError(CliError):
    """An option or a file of the command is invalid."""


class DependencyUnreachable(CliError):
    """The token issuer or the blob store does not respond, or the blob store refused an upload."""

    exit = Exit.UNREACHABLE


#: advice for writes, and for reads of one tenant
NAME_A_TENANT = "tenant missing; name a tenant with --tenant or LUCIUS_TENANT, or run `lucius login --as TENANT`"


#: problem codes of an item that was deleted after it was listed, or whose bundle was deleted from the archive
GONE = ("ARCHIVE_GONE", "BULK_NOT_FOUND", "JOB_NOT_FOUND", "REJECTED_NOT_FOUND")
#: problem codes of an item that cannot be read until an operator restores it
UNREADABLE = ("ARCHIVE_INVALID", "DATA_LOST")


def check_whole(not_exported: Mapping[str, str]) -> None:
    """Raises CliError (exit code 1) if an operator can restore an item that was not exported.

    `not_exported` has the problem code of each item by its name.
    """
    if lost := [f"{name} ({code})" for name, code in not_exported.items() if code in UNREADABLE]:
        text = f"not exported: {', '.join(lost)}; export again after an operator restored the data"
        raise CliError(text, Exit.NOT_WELL)


def problem_text(problem: Mapping[str, Any]) -> str:
    """Formats a problem: `job not found: nope (JOB_NOT_FOUND)`. Adds a line for each invalid field, unless the detail
    already has the field's message.
    """
    detail = str(problem["detail"])
    places = [each for each in problem.get("errors") or () if each["message"] not in detail]
    return "\n".join([f"{detail} ({problem['code']})", *(f"  {each['path']}: {each['message']}" for each in places)])


def cli_error(error: LuciusError, api: str) -> CliError:
    """Returns the message and the exit code for an error of the client."""
    match error:
        case Unauthenticated():
            hint = "get a token with `lucius login --as TENANT`, or set LUCIUS_TOKEN"
            return CliError(f"token missing, invalid or expired; {hint} ({error.code})", Exit.REFUSED)
        case Refused() if error.code == "TENANT_REQUIRED":
            return CliError(f"{NAME_A_TENANT} ({error.code})", Exit.REFUSED)
        case Refused():
            return CliError(problem_text(error.problem.plain()), Exit.REFUSED)
        case NoResult() if error.job.status in ("FAILED_FINAL", "CANCELLED"):
            return CliError(str(error), Exit.NOT_WELL)
        case NoResult() | ResultGone() | ResultForbidden():
            return CliError(str(error), Exit.REFUSED)
        case StoreUnreachable():
            return CliError(str(error), Exit.UNREACHABLE)
        case Unreachable():
            return CliError(
                f"no API responds at {api} ({error}); name another API with --api, or run `make up` in a checkout",
                Exit.UNREACHABLE,
            )
        case BadAddress():
            return CliError(f"--api {error}")
        case NotLucius():
            return CliError(f"{api} is not a LUCIUS API: {error}; check --api")
    return CliError(str(error))
