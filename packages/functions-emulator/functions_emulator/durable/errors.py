"""Errors of the durable operations that a client may ask for."""

from __future__ import annotations


class DurableError(Exception):
    """a durable operation was refused"""


class FunctionNotFoundError(DurableError):
    """no function of that kind and name is known"""

    def __init__(self, kind: str, name: str, known: list[str]) -> None:
        self.kind, self.name, self.known = kind, name, known
        functions = ", ".join(f"'{one}'" for one in known) or "none"
        article = "an" if kind[0] in "aeo" else "a"
        super().__init__(
            f"The function '{name}' doesn't exist, is disabled, or is not {article} {kind} function. "
            f"Known {kind} functions: {functions}."
        )


class InstanceExistsError(DurableError):
    """an instance with that id is not finished yet"""

    def __init__(self, instance_id: str, status: str) -> None:
        self.instance_id = instance_id
        super().__init__(f"An Orchestration instance with the id {instance_id!r} and status {status} already exists.")


class InstanceNotFoundError(DurableError):
    """there is no instance with that id"""

    def __init__(self, instance_id: str) -> None:
        self.instance_id = instance_id
        super().__init__(f"No instance with ID '{instance_id}' found.")


class InstanceGoneError(DurableError):
    """the instance is finished"""

    def __init__(self, instance_id: str, status: str) -> None:
        self.instance_id = instance_id
        super().__init__(f"The instance '{instance_id}' is {status}.")


class WrongStatusError(DurableError):
    """the operation needs another status"""


class InvalidInstanceIdError(DurableError):
    """an instance id must not be empty, start with @, or hold / \\ # ? or control characters"""
