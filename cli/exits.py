"""How the command line ends: exit codes for scripts, and the errors that lead to them."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """What a script can tell apart."""

    OK = 0
    #: --watch: a job ended FAILED_FINAL or CANCELLED
    JOB_FAILED = 1
    #: a wrong option or file
    USAGE = 2
    #: the API answered with a problem
    REFUSED = 3
    #: the API or the blob store does not answer
    UNREACHABLE = 4
    #: Ctrl-C, as shells have it
    INTERRUPTED = 130


class CliError(Exception):
    """One line for the user, and how to end."""

    exit = Exit.USAGE


class UsageError(CliError):
    """The command cannot mean anything."""


class Refused(CliError):
    """The API said no; `problem` is its RFC 9457 body."""

    exit = Exit.REFUSED

    def __init__(self, status: int, problem: dict[str, object]) -> None:
        self.status = status
        self.problem = problem
        text = f"the API refused ({status} {problem.get('code', '')}): {problem.get('detail', '')}"
        errors = problem.get("errors")
        for error in errors if isinstance(errors, list) else []:
            text += f"\n  {error.get('path', '')}: {error.get('message', '')}"
        super().__init__(text)


class Unreachable(CliError):
    """Nobody answers."""

    exit = Exit.UNREACHABLE
