"""Errors of durable operations that a client can request."""

from __future__ import annotations


class DurableError(Exception):
    """a durable operation was refused"""


class FunctionNotFoundError(DurableError):
    """the function of that kind and name is unknown"""

    def __init__(self, kind: str, name: str, known: list[str]) -> None:
        self.kind, self.name, self.known = kind, name, known
        functions = ", ".join(f"'{one}'" for one in known)
        known_text = f"The following are the known {kind} functions: {functions}."
        super().__init__(
            # GetInvalidActivityFunctionMessage in DurableTaskExtension.cs of the extension
            f"The function '{name}' doesn't exist, is disabled, or is not an {kind} function. "
            f"Additional info: {known_text if known else f'No {kind} functions are currently registered!'}"
        )


class InstanceExistsError(DurableError):
    """an instance with that id has not ended"""

    def __init__(self, instance_id: str, status: str) -> None:
        self.instance_id = instance_id
        # CreateTaskOrchestrationAsync in AzureStorageOrchestrationService.cs of DurableTask.AzureStorage
        super().__init__(f"An Orchestration instance with the status {status} already exists.")


class InstanceNotFoundError(DurableError):
    """the instance id is unknown"""

    def __init__(self, instance_id: str) -> None:
        self.instance_id = instance_id
        super().__init__(f"No instance with ID '{instance_id}' found.")


class InstanceGoneError(DurableError):
    """the instance has ended"""

    def __init__(self, instance_id: str, status: str) -> None:
        self.instance_id = instance_id
        super().__init__(f"The instance '{instance_id}' is {status}.")


class WrongStatusError(DurableError):
    """the status of the instance does not allow the operation"""


class InvalidInstanceIdError(DurableError):
    """an instance id must not start with @, or contain / \\ # ? or control characters"""
