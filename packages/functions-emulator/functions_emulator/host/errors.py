"""Errors of the host and of single functions."""

from __future__ import annotations


class HostError(Exception):
    """The host cannot serve this app. Each line of the message is one problem."""


class BindingError(Exception):
    """One function cannot be served as it is declared. The message is one line."""


class WorkerRefusesError(BindingError):
    """A mistake for which the Python worker on Azure refuses the whole app."""


class FunctionFailedError(Exception):
    """A function raised an exception, exceeded its time, or returned a value of a wrong type, or a binding failed.

    `cause` is the exception. `stack` is its stack trace if the function raised the exception.
    """

    def __init__(self, name: str, cause: BaseException, stack: str) -> None:
        self.name, self.cause, self.stack = name, cause, stack
        super().__init__(f"{type(cause).__name__}: {cause}")
