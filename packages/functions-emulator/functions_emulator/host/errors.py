"""What keeps the host, or one function, from working."""

from __future__ import annotations


class HostError(Exception):
    """the host cannot serve this app; each line of the message is one problem"""


class BindingError(Exception):
    """one function cannot be served as it is declared; the message is one line"""


class WorkerRefusesError(BindingError):
    """a mistake for which the Python worker on Azure refuses the whole app"""


class FunctionFailedError(Exception):
    """a function raised, or returned what its binding cannot take

    `cause` is the exception of the user's code.
    """

    def __init__(self, name: str, cause: BaseException, stack: str) -> None:
        self.name, self.cause, self.stack = name, cause, stack
        super().__init__(f"{type(cause).__name__}: {cause}")
