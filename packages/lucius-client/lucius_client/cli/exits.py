"""How the command line ends: exit codes for scripts, and the errors that lead to them."""

from __future__ import annotations

from enum import IntEnum

from lucius_client import BadAddress, LuciusError, NotLucius, Refused, Unauthenticated, Unreachable


class Exit(IntEnum):
    """What a script can tell apart."""

    OK = 0
    #: what was watched or checked is not well: a job ended FAILED_FINAL or CANCELLED, a file is wrong, jobs differ
    NOT_WELL = 1
    #: a wrong option or file
    USAGE = 2
    #: the API answered with a problem
    REFUSED = 3
    #: the API, the blob store or the token issuer does not answer
    UNREACHABLE = 4
    #: Ctrl-C, as shells have it
    INTERRUPTED = 130


class CliError(Exception):
    """One line for the user, and how to end."""

    exit = Exit.USAGE

    def __init__(self, text: str, exit_: Exit | None = None) -> None:
        super().__init__(text)
        self.exit = exit_ if exit_ is not None else type(self).exit


class UsageError(CliError):
    """The command cannot mean anything."""


class DependencyUnreachable(CliError):
    """Nobody answers where something else than the API should be."""

    exit = Exit.UNREACHABLE


def cli_error(error: LuciusError, api: str) -> CliError:
    """What the client raised, for a person at a terminal."""
    match error:
        case Unauthenticated():
            hint = "get a token by `lucius login --as TENANT --scope orch:read`, or give one in LUCIUS_TOKEN"
            return CliError(f"the API refused ({error.status} {error.code}): {hint}", Exit.REFUSED)
        case Refused():
            lines = [f"the API refused ({error.status} {error.code}): {error.problem.detail}"]
            lines += [f"  {each.path}: {each.message}" for each in error.problem.errors]
            return CliError("\n".join(lines), Exit.REFUSED)
        case Unreachable():
            return CliError(f"no API answers at {api} ({error}); start one by `make up`", Exit.UNREACHABLE)
        case BadAddress():
            return CliError(f"--api {error}")
        case NotLucius():
            return CliError(f"{api} is not a LUCIUS API: {error}")
    return CliError(str(error))
