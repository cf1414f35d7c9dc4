"""Storage of the broker's state: `Memory` keeps the state in the process, `sqlite_store` on disk."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from servicebus_emulator.broker.message import Message


class StoreError(Exception):
    """The data cannot be read or written."""


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A stored message as it is read back. The fields are those of `Message`."""

    entity: str
    encoded: bytes
    sequence_number: int
    enqueued_at_ms: int
    enqueued_sequence_number: int
    expires_at_ms: int | None
    state: int
    delivery_count: int
    scheduled_at_ms: int | None
    dead_letter_source: str | None
    forwarded: int


class Store(Protocol):
    """A collector of changes, which `commit` makes durable together. The server sends no output before `commit`."""

    @property
    def is_dirty(self) -> bool:
        """Returns True if there are changes to commit."""

    def put(self, entity: str, message: Message) -> None:
        """Stores a message that is new or has changed content."""

    def update(self, entity: str, message: Message) -> None:
        """Stores state, delivery count and times of a message whose content is unchanged."""

    def delete(self, entity: str, sequence_number: int) -> None: ...

    def put_delivery_count(self, entity: str, message: Message, count: int) -> None:
        """Stores the count that a message has if the broker dies now. The count includes a delivery in progress."""

    def put_counter(self, entity: str, last_sequence_number: int) -> None:
        """Stores the last assigned number, so that numbers never repeat."""

    def put_history(self, entity: str, message_id: str, until_ms: int) -> None:
        """Stores a message id for duplicate detection."""

    def put_session_state(self, entity: str, session_id: str, state: bytes | None) -> None: ...

    def put_entity(self, path: str, description: str | None) -> None:
        """Stores the description of an entity of the management API. None means a deleted entity."""

    def forget_entities(self, prefix: str) -> None:
        """Removes the entities that `put_entity` stored for paths with this prefix."""

    def drop(self, entity: str) -> None:
        """Removes all stored data of an entity."""

    def commit(self) -> None:
        """Makes the changes durable. Raises StoreError if the write fails."""

    def messages(self) -> Iterator[StoredMessage]:
        """Yields all messages, each entity's in order of sequence number."""

    def counters(self) -> dict[str, int]: ...

    def history(self, now_ms: int) -> Iterator[tuple[str, str, int]]:
        """Yields entity, message id and expiry of the message ids that have not expired."""

    def session_states(self) -> Iterator[tuple[str, str, bytes]]: ...

    def entities(self) -> dict[str, str | None]: ...

    def close(self) -> None: ...


class Memory:
    """A store without data, since all state is in the broker's own structures."""

    is_dirty = False

    def put(self, entity: str, message: Message) -> None:
        pass

    def update(self, entity: str, message: Message) -> None:
        pass

    def delete(self, entity: str, sequence_number: int) -> None:
        pass

    def put_delivery_count(self, entity: str, message: Message, count: int) -> None:
        pass

    def put_counter(self, entity: str, last_sequence_number: int) -> None:
        pass

    def put_history(self, entity: str, message_id: str, until_ms: int) -> None:
        pass

    def put_session_state(self, entity: str, session_id: str, state: bytes | None) -> None:
        pass

    def put_entity(self, path: str, description: str | None) -> None:
        pass

    def forget_entities(self, prefix: str) -> None:
        pass

    def drop(self, entity: str) -> None:
        pass

    def commit(self) -> None:
        pass

    def messages(self) -> Iterator[StoredMessage]:
        return iter(())

    def counters(self) -> dict[str, int]:
        return {}

    def history(self, now_ms: int) -> Iterator[tuple[str, str, int]]:
        return iter(())

    def session_states(self) -> Iterator[tuple[str, str, bytes]]:
        return iter(())

    def entities(self) -> dict[str, str | None]:
        return {}

    def close(self) -> None:
        pass
