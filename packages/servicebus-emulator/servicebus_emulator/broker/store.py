"""Where the broker keeps what must outlive it. `Memory` keeps nothing; `sqlite_store` keeps all."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from servicebus_emulator.broker.message import Message


class StoreError(Exception):
    """The data cannot be read or written."""


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A row as it is read back; fields are those of `Message`."""

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
    """Changes are gathered and made lasting together by `commit`; nothing is answered to a peer before."""

    @property
    def is_dirty(self) -> bool:
        """There is something to commit."""

    def put(self, entity: str, message: Message) -> None:
        """Keeps a message, new or with changed content."""

    def update(self, entity: str, message: Message) -> None:
        """Keeps a message's state, delivery count and times; its content is as it was put."""

    def delete(self, entity: str, sequence_number: int) -> None: ...

    def put_delivery_count(self, entity: str, message: Message, count: int) -> None:
        """Keeps the delivery count that a message has if the broker ends now: one more for what is handed out."""

    def put_counter(self, entity: str, last_sequence_number: int) -> None:
        """Keeps the last number given, so that numbers never repeat."""

    def put_history(self, entity: str, message_id: str, until_ms: int) -> None:
        """Keeps a message id seen, for duplicate detection."""

    def put_session_state(self, entity: str, session_id: str, state: bytes | None) -> None: ...

    def put_entity(self, path: str, description: str | None) -> None:
        """Keeps (None: drops) an entity that the administration API made, as JSON."""

    def forget_entities(self, prefix: str) -> None:
        """Forgets what `put_entity` kept for paths that begin so."""

    def drop(self, entity: str) -> None:
        """Forgets everything of an entity."""

    def commit(self) -> None:
        """StoreError when the changes cannot be made lasting."""

    def messages(self) -> Iterator[StoredMessage]:
        """All messages, each entity's in order of sequence number."""

    def counters(self) -> dict[str, int]: ...

    def history(self, now_ms: int) -> Iterator[tuple[str, str, int]]:
        """Entity, message id and end of memory of each id not forgotten yet."""

    def session_states(self) -> Iterator[tuple[str, str, bytes]]: ...

    def entities(self) -> dict[str, str | None]: ...

    def close(self) -> None: ...


class Memory:
    """Keeps nothing beyond the process: the broker's own structures are all there is."""

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
