"""Errors of durable operations that a client can request."""

from __future__ import annotations


class DurableError(Exception):
    """A durable operation was refused."""


class FunctionNotFoundError(DurableError):
    """The app has no function of this kind and name."""

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
    """An instance with this id has not ended."""

    def __init__(self, instance_id: str, status: str) -> None:
        self.instance_id = instance_id
        # CreateTaskOrchestrationAsync in AzureStorageOrchestrationService.cs of DurableTask.AzureStorage
        super().__init__(f"An Orchestration instance with the status {status} already exists.")


class InstanceNotFoundError(DurableError):
    """No instance has this id."""

    def __init__(self, instance_id: str) -> None:
        self.instance_id = instance_id
        super().__init__(f"No instance with ID '{instance_id}' found.")


class InstanceGoneError(DurableError):
    """The instance has ended."""

    def __init__(self, instance_id: str, status: str) -> None:
        self.instance_id = instance_id
        super().__init__(f"The instance '{instance_id}' is {status}.")


class WrongStatusError(DurableError):
    """The status of the instance does not allow the operation."""


class InvalidInstanceIdError(DurableError):
    """The instance id starts with @, or contains / \\ # ? or a control character."""
