"""Entities: named pieces of state that handle one operation after another.

Operations wait in the store as messages to `@name@key`, with the name in lower case. The entity function gets a batch
of operations. The new state and the results for the callers are one transaction.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from functions_emulator.durable.clock import parse_stamp
from functions_emulator.durable.engine import Engine
from functions_emulator.durable.events import Kind, Message
from functions_emulator.durable.messages import is_operation, operation_data


@dataclass(frozen=True, slots=True)
class Batch:
    """Operations for one entity. `state` is JSON text, or `None` if the entity does not exist."""

    entity_id: str
    state: str | None
    messages: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class Entity:
    """An existing entity. `id` is `@name@key`. `state` is JSON text."""

    id: str
    state: str
    updated_at: datetime

    @property
    def name(self) -> str:
        return self.id.split("@", 2)[1]

    @property
    def key(self) -> str:
        return self.id.split("@", 2)[2]


class Entities:
    """The entities of an engine. Returns batches of operations for entity functions, and reads and signals entities."""

    def __init__(self, engine: Engine, max_batch: int = 50) -> None:
        """Sets the engine. `max_batch` is the maximum number of operations in one batch."""
        self._max_batch = max_batch
        self._engine = engine
        self._store = engine.store

    def state(self, name: str, key: str) -> str | None:
        """Returns the state as JSON text, or `None` if the entity does not exist."""
        return self._store.entity(entity_id(name, key))

    def find(
        self,
        name: str | None = None,
        *,
        used_from: datetime | None = None,
        used_to: datetime | None = None,
        after: str = "",
        limit: int = -1,
    ) -> list[Entity]:
        """Returns entities in the order of their ids, at most `limit`. `after` is the last id of the previous page."""
        prefix = "@" if name is None else entity_id(name, "")
        rows = self._store.entities(prefix, after, limit, used_from, used_to)
        return [Entity(one, state, parse_stamp(at)) for one, state, at in rows]

    def signal(self, name: str, key: str, operation: str, input_text: str | None) -> None:
        """Sends an operation without a result.

        `input_text` is the JSON text as the client posted it. The SDK posts a JSON string that contains JSON text.
        """
        self._engine.catalog.resolve("entity", name)
        decoded = None if input_text is None else json.loads(input_text)
        text = decoded if isinstance(decoded, str) or decoded is None else input_text
        data = operation_data(str(uuid.uuid4()), operation, text, None)
        with self._store.transaction():
            self._engine.post(entity_id(name, key), None, Kind.GENERIC, data, self._engine.clock.now())

    def next_batch(self) -> Batch | None:
        """Returns the next entity with waiting operations, or `None`. The caller must pass it to `finish` or `drop`."""
        while True:
            target = self._engine.entity_wakeups.take(self._engine.clock.now())
            if target is None:
                return None
            due = self._store.due_messages(target, self._engine.clock.now())
            messages = tuple(one for one in due if is_operation(one.kind, one.data))[: self._max_batch]
            if messages:
                self._engine.hide(messages)
                return Batch(target, self._store.entity(target), messages)
            self._engine.entity_wakeups.release(target)

    def finish(self, batch: Batch, *, exists: bool, state: str | None, results: Sequence[Mapping[str, Any]]) -> None:
        """Commits the new state and sends `results`, one `{"isError", "result"}` for each operation."""
        now = self._engine.clock.now()
        try:
            with self._store.transaction():
                # The results go out first. If the entity was purged meanwhile, its state cannot be written, and the
                # operations come back.
                if batch.state is None or self._store.entity(batch.entity_id) is not None:
                    self._store.delete_messages(message.seq for message in batch.messages)
                    self._store.put_entity(batch.entity_id, state if exists else None, now)
                for message, result in zip(batch.messages, results, strict=True):
                    parent = message.data["parent"]
                    if parent is None:
                        continue
                    event_input: dict[str, Any] = {"result": result["result"]}
                    if result["isError"]:
                        event_input["exceptionType"] = "Error"
                    data: dict[str, object] = {"Name": message.data["id"], "Input": json.dumps(event_input)}
                    self._engine.post(parent, message.data["parent_execution"], Kind.EVENT_RAISED, data, now)
        finally:
            self.drop(batch)

    def drop(self, batch: Batch) -> None:
        """Releases a batch. Unfinished operations run again."""
        now = self._engine.clock.now()
        self._engine.entity_wakeups.release(batch.entity_id)
        self._engine.entity_wakeups.add(batch.entity_id, now, now)
        self._engine.work_arrived()


def entity_id(name: str, key: str) -> str:
    """Returns `@name@key`, with the name in lower case."""
    return f"@{name.lower()}@{key}"


def encode_batch(batch: Batch) -> str:
    """Returns the trigger input of an entity function as JSON text."""
    _, name, key = batch.entity_id.split("@", 2)
    return json.dumps(
        {
            "self": {"name": name, "key": key},
            "exists": batch.state is not None,
            "state": batch.state,
            "batch": [
                {
                    "name": message.data["op"],
                    # The SDK decodes it twice.
                    "input": json.dumps(message.data["input"]),
                    "isSignal": message.data["signal"],
                }
                for message in batch.messages
            ],
        }
    )
