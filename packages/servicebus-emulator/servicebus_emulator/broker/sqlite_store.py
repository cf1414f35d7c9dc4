"""The store on disk: one SQLite file in write-ahead mode.

Changes wait in memory until `commit` writes them in one transaction. A burst of messages costs one commit, and a
message that is sent and completed in between costs no row. With `synchronous=NORMAL`, commits survive the end of the
process, but a power cut may lose the last commits.

More frequent changes are written to a second file, which is the journal (module `journal`). The data of an
entity is stored by lower-case path, because names ignore case.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from servicebus_emulator.broker.journal import Journal
from servicebus_emulator.broker.message import Message
from servicebus_emulator.broker.store import StoredMessage, StoreError

SCHEMA_VERSION = 1
_SCHEMA = """
CREATE TABLE messages (
    entity TEXT NOT NULL, sequence_number INTEGER NOT NULL, encoded BLOB NOT NULL,
    enqueued_at_ms INTEGER NOT NULL, enqueued_sequence_number INTEGER NOT NULL, expires_at_ms INTEGER,
    state INTEGER NOT NULL, delivery_count INTEGER NOT NULL, scheduled_at_ms INTEGER,
    dead_letter_source TEXT, forwarded INTEGER NOT NULL,
    PRIMARY KEY (entity, sequence_number)
) WITHOUT ROWID;
CREATE TABLE counters (entity TEXT PRIMARY KEY, last_sequence_number INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE history (
    entity TEXT NOT NULL, message_id TEXT NOT NULL, until_ms INTEGER NOT NULL, PRIMARY KEY (entity, message_id)
) WITHOUT ROWID;
CREATE INDEX history_by_end ON history (until_ms);
CREATE TABLE session_states (
    entity TEXT NOT NULL, session_id TEXT NOT NULL, state BLOB NOT NULL, PRIMARY KEY (entity, session_id)
) WITHOUT ROWID;
CREATE TABLE entities (path TEXT PRIMARY KEY, description TEXT) WITHOUT ROWID;
"""
#: number of new message ids after which expired ones are deleted
_PRUNE_EVERY = 1000
_PUT = "INSERT OR REPLACE INTO messages VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_UPDATE = (
    "UPDATE messages SET expires_at_ms = ?, state = ?, delivery_count = ?, scheduled_at_ms = ? "
    "WHERE entity = ? AND sequence_number = ?"
)
_RECOUNT = "UPDATE messages SET delivery_count = ? WHERE entity = ? AND sequence_number = ?"
_COUNTER = "INSERT OR REPLACE INTO counters VALUES (?, ?)"
_DELETE = "DELETE FROM messages WHERE entity = ? AND sequence_number = ?"


class SqliteStore:
    """A `store.Store` in an SQLite file and its journal."""

    def __init__(self, path: Path, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._remembered = 0
        self._put: dict[tuple[str, int], Message] = {}
        self._update: dict[tuple[str, int], Message] = {}
        self._other: list[tuple[str, tuple[Any, ...]]] = []
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._db = sqlite3.connect(path, isolation_level=None, timeout=0.5)
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = NORMAL")
            # One broker per file: a second one would deliver the same messages.
            self._db.execute("PRAGMA locking_mode = EXCLUSIVE")
            self._db.execute("BEGIN IMMEDIATE")
            version = self._db.execute("PRAGMA user_version").fetchone()[0]
            if version == 0:
                for statement in _SCHEMA.split(";"):
                    self._db.execute(statement)
                self._db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
            elif version != SCHEMA_VERSION:
                raise StoreError(
                    f"{path} has format {version}, and this version of the emulator writes format {SCHEMA_VERSION}; "
                    f"use another --data, or delete the files {path.stem}* in {path.parent} to start empty"
                )
            self._journal = Journal(path.with_suffix(".journal"))
            self._fold()
            self._db.execute("COMMIT")
            self._journal.clear()
        except (sqlite3.Error, OSError, ValueError, TypeError) as error:
            reason = "another bus uses the file" if "locked" in str(error) else str(error)
            raise StoreError(f"cannot use {path}: {reason}") from error

    @property
    def is_dirty(self) -> bool:
        return self._has_rows or self._journal.is_dirty

    @property
    def _has_rows(self) -> bool:
        return bool(self._put or self._update or self._other)

    def put(self, entity: str, message: Message) -> None:
        self._put[(entity.lower(), message.sequence_number)] = message

    def update(self, entity: str, message: Message) -> None:
        key = (entity.lower(), message.sequence_number)
        if key not in self._put:
            self._update[key] = message

    def delete(self, entity: str, sequence_number: int) -> None:
        key = (entity.lower(), sequence_number)
        self._update.pop(key, None)
        self._put.pop(key, None)
        # Also if it was put in this batch: it may have been a change to a row stored before.
        self._journal.remove(*key)

    def put_delivery_count(self, entity: str, message: Message, count: int) -> None:
        self._journal.put_count(entity.lower(), message.sequence_number, count)

    def put_counter(self, entity: str, last_sequence_number: int) -> None:
        self._journal.put_number(entity.lower(), last_sequence_number)

    def put_history(self, entity: str, message_id: str, until_ms: int) -> None:
        self._remembered += 1
        if self._remembered % _PRUNE_EVERY == 0:
            self._other.append(("DELETE FROM history WHERE until_ms <= ?", (self._now_ms(),)))
        self._other.append(("INSERT OR REPLACE INTO history VALUES (?, ?, ?)", (entity.lower(), message_id, until_ms)))

    def put_session_state(self, entity: str, session_id: str, state: bytes | None) -> None:
        if state is None:
            statement = "DELETE FROM session_states WHERE entity = ? AND session_id = ?"
            self._other.append((statement, (entity.lower(), session_id)))
        else:
            statement = "INSERT OR REPLACE INTO session_states VALUES (?, ?, ?)"
            self._other.append((statement, (entity.lower(), session_id, state)))

    def put_entity(self, path: str, description: str | None) -> None:
        # the same entity may be stored with another case of its name
        self._other.append(("DELETE FROM entities WHERE path = ? COLLATE NOCASE", (path,)))
        self._other.append(("INSERT OR REPLACE INTO entities VALUES (?, ?)", (path, description)))

    def forget_entities(self, prefix: str) -> None:
        self._other.append(("DELETE FROM entities WHERE substr(path, 1, ?) = ? COLLATE NOCASE", (len(prefix), prefix)))

    def drop(self, entity: str) -> None:
        entity = entity.lower()
        for changes in (self._put, self._update):
            for key in [key for key in changes if key[0] == entity]:
                del changes[key]
        self._journal.drop(entity)
        for table in ("messages", "counters", "history", "session_states"):
            self._other.append((f"DELETE FROM {table} WHERE entity = ?", (entity,)))

    def commit(self) -> None:
        try:
            self._journal.write_numbers()
            if self._has_rows or self._journal.is_long:
                self._write()
            self._journal.write()
        except (sqlite3.Error, OSError, OverflowError) as error:
            raise StoreError(f"{error}") from error

    def _write(self) -> None:
        db, folding = self._db, self._journal.is_long
        db.execute("BEGIN IMMEDIATE")
        for statement, values in self._other:
            db.execute(statement, values)
        if self._put:
            db.executemany(_PUT, [_row(entity, message) for (entity, _), message in self._put.items()])
        if self._update:
            db.executemany(_UPDATE, [_changed(entity, message) for (entity, _), message in self._update.items()])
        if folding:
            self._fold()
        elif self._journal.gone:
            # In the same transaction as the inserts: a message that went to another entity must not be in both.
            db.executemany(_DELETE, self._journal.gone)
        db.execute("COMMIT")
        self._journal.gone.clear()
        if folding:
            self._journal.clear()
        for changes in (self._put, self._update, self._other):
            changes.clear()

    def _fold(self) -> None:
        """Applies the journal to the database."""
        journal = self._journal
        self._db.executemany(_DELETE, journal.gone)
        self._db.executemany(_RECOUNT, [(count, *key) for key, count in journal.counts.items()])
        self._db.executemany(_COUNTER, journal.last.items())

    def messages(self) -> Iterator[StoredMessage]:
        columns = (
            "entity, encoded, sequence_number, enqueued_at_ms, enqueued_sequence_number, expires_at_ms, state, "
            "delivery_count, scheduled_at_ms, dead_letter_source, forwarded"
        )
        rows = self._db.execute(f"SELECT {columns} FROM messages ORDER BY entity, sequence_number")
        return (StoredMessage(*row) for row in rows)

    def counters(self) -> dict[str, int]:
        return dict(self._db.execute("SELECT entity, last_sequence_number FROM counters"))

    def history(self, now_ms: int) -> Iterator[tuple[str, str, int]]:
        self._db.execute("DELETE FROM history WHERE until_ms <= ?", (now_ms,))
        return self._db.execute("SELECT entity, message_id, until_ms FROM history ORDER BY until_ms")

    def session_states(self) -> Iterator[tuple[str, str, bytes]]:
        return self._db.execute("SELECT entity, session_id, state FROM session_states")

    def entities(self) -> dict[str, str | None]:
        return dict(self._db.execute("SELECT path, description FROM entities"))

    def close(self) -> None:
        self._db.close()
        self._journal.close()


def _row(entity: str, message: Message) -> tuple[Any, ...]:
    return (
        entity,
        message.sequence_number,
        message.content.encode(),
        message.enqueued_at_ms,
        message.enqueued_sequence_number,
        message.expires_at_ms,
        int(message.state),
        message.delivery_count,
        message.scheduled_at_ms,
        message.dead_letter_source,
        message.forwarded,
    )


def _changed(entity: str, message: Message) -> tuple[Any, ...]:
    return (
        message.expires_at_ms,
        int(message.state),
        message.delivery_count,
        message.scheduled_at_ms,
        entity,
        message.sequence_number,
    )
