"""Errors of the broker, each with the AMQP condition and the status code of Azure."""

from __future__ import annotations

#: name of the namespace, as in Microsoft's emulator
NAMESPACE = "sbemulatorns"
_MORE = "To know more visit https://aka.ms/sbResourceMgrExceptions."


def topic_part(topic: str, *names: str) -> str:
    """Returns a subscription, or with two names a rule, as Azure's errors name it."""
    return f"{NAMESPACE}:Topic:{'|'.join((topic, *names))}"


class BusError(Exception):
    """The request cannot be executed."""

    condition = "amqp:internal-error"
    status = 500

    def __init__(self, description: str = "") -> None:
        super().__init__(description or (self.__doc__ or "").strip())

    @property
    def description(self) -> str:
        return str(self)


class EntityNotFound(BusError):
    """The messaging entity could not be found."""

    condition = "amqp:not-found"
    status = 404

    def __init__(self, address: str) -> None:
        super().__init__(f"The messaging entity '{address}' could not be found.")
        self.address = address


class MessageNotFound(BusError):
    """No message has this sequence number and the requested state."""

    condition = "com.microsoft:message-not-found"
    status = 404


class MessageLockLost(BusError):
    """The lock supplied is invalid. Either the lock expired, or the message has already been removed from the queue."""

    condition = "com.microsoft:message-lock-lost"
    status = 410


class SessionLockLost(BusError):
    """The session lock has expired. Accept the session again."""

    condition = "com.microsoft:session-lock-lost"
    status = 410


class SessionCannotBeLocked(BusError):
    """The requested session cannot be accepted: another receiver has it."""

    condition = "com.microsoft:session-cannot-be-locked"
    status = 410


class QuotaExceeded(BusError):
    """The entity is full: receive messages from it, or delete some."""

    condition = "amqp:resource-limit-exceeded"
    status = 403


class MessageTooLarge(BusError):
    """The message exceeds the maximum size."""

    condition = "amqp:link:message-size-exceeded"
    status = 413


class InvalidRequest(BusError):
    """The request breaks a rule of the entity or is incomplete."""

    condition = "amqp:not-allowed"
    status = 400


class NotImplementedHere(BusError):
    """The emulator does not support this operation. Azure may support it."""

    condition = "amqp:not-implemented"
    status = 501


class Unauthorized(BusError):
    """The token is missing, wrong or expired."""

    condition = "amqp:unauthorized-access"
    status = 401


class EntityDisabled(BusError):
    """The messaging entity is disabled for this operation."""

    condition = "com.microsoft:entity-disabled"
    status = 403


class ServerBusy(BusError):
    """The server is busy. Please retry the operation."""

    condition = "com.microsoft:server-busy"
    status = 503


class TopicPartNotFound(BusError):
    """The topic has no subscription or rule of this name. The management API returns this error."""

    condition = "amqp:not-found"
    status = 404

    def __init__(self, topic: str, *names: str) -> None:
        super().__init__(f"Entity '{topic_part(topic, *names)}' was not found. {_MORE}")


class EntityExists(BusError):
    """An entity of this name exists."""

    condition = "com.microsoft:entity-already-exists"
    status = 409

    def __init__(self, name: str) -> None:
        super().__init__(f"The messaging entity '{name}' already exists. {_MORE}")


class EntityConflict(BusError):
    """A queue or topic of this name exists. The management API returns this error."""

    condition = "com.microsoft:entity-already-exists"
    status = 409

    def __init__(self, name: str) -> None:
        super().__init__(
            "SubCode=40900. Conflict. You're requesting an operation that isn't allowed in the resource's current "
            f"state. {_MORE} SystemTracker:{NAMESPACE}:{name}"
        )
