"""The state that outlives the process: instances, histories, undelivered messages, activities without a result,
entities, and state of other parts of the host.

The state is one SQLite database in WAL mode. A commit survives SIGKILL. All changes of an episode are one transaction.
"""

from __future__ import annotations

import json
import sqlite3
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from functions_emulator.durable.clock import parse_stamp, stamp
from functions_emulator.durable.events import ActivityTask, Event, Instance, Kind, Message, Parent, Status

_SCHEMA = """
CREATE TABLE IF NOT EXISTS instances (
    instance_id TEXT PRIMARY KEY, execution_id TEXT NOT NULL, name TEXT NOT NULL, version TEXT, input TEXT,
    status TEXT NOT NULL, custom_status TEXT, output TEXT, created_at TEXT NOT NULL, updated_at TEXT NOT NULL,
    parent_id TEXT, parent_execution_id TEXT, parent_task_id INTEGER, note TEXT
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS instances_by_creation ON instances (created_at);
CREATE TABLE IF NOT EXISTS history (
    instance_id TEXT NOT NULL, execution_id TEXT NOT NULL, seq INTEGER NOT NULL,
    kind INTEGER NOT NULL, event_id INTEGER NOT NULL, at TEXT NOT NULL, data TEXT NOT NULL,
    PRIMARY KEY (instance_id, execution_id, seq)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS messages (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, instance_id TEXT NOT NULL, execution_id TEXT,
    kind INTEGER NOT NULL, data TEXT NOT NULL, visible_at TEXT NOT NULL, hidden_until TEXT
);
CREATE INDEX IF NOT EXISTS messages_of_instance ON messages (instance_id, visible_at, seq);
CREATE TABLE IF NOT EXISTS activities (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, instance_id TEXT NOT NULL, execution_id TEXT NOT NULL,
    task_id INTEGER NOT NULL, name TEXT NOT NULL, input TEXT, hidden_until TEXT
);
CREATE INDEX IF NOT EXISTS activities_of_instance ON activities (instance_id);
CREATE TABLE IF NOT EXISTS entities (
    entity_id TEXT PRIMARY KEY, state TEXT NOT NULL, updated_at TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS host_state (name TEXT PRIMARY KEY, data TEXT NOT NULL) WITHOUT ROWID;
"""

#: maximum events in the cache, about 150 MB
MAX_RECENT_EVENTS = 200_000

_INSTANCE = (
    "instance_id, execution_id, name, version, input, status, custom_status, output, created_at, updated_at, "
    "parent_id, parent_execution_id, parent_task_id, note"
)


class Store:
    """The database of one task hub. If `path` is `None`, the database is in memory."""

    def __init__(self, path: Path | None) -> None:
        self._db = sqlite3.connect(":memory:" if path is None else path, isolation_level=None, check_same_thread=False)
        self._db.execute("PRAGMA journal_mode=WAL")
        # NORMAL: a commit survives the death of the process, as promised; a power cut may lose the last commits.
        self._db.execute("PRAGMA synchronous=NORMAL")
        self._db.executescript(_SCHEMA)
        for table, column in (("instances", "note"), ("messages", "hidden_until"), ("activities", "hidden_until")):
            if column not in {row[1] for row in self._db.execute(f"PRAGMA table_info({table})")}:
                self._db.execute(f"ALTER TABLE {table} ADD COLUMN {column} TEXT")  # a store of an earlier version
        #: callback: gets `False` before each commit, `True` after it
        self.committing: Callable[[bool], None] = lambda done: None

    def close(self) -> None:
        self._db.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commits all changes or none. A transaction inside another transaction is part of the outer transaction."""
        if self._db.in_transaction:
            yield
            return
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self.committing(False)
        self._db.execute("COMMIT")
        self.committing(True)

    # --- instances

    def put_instance(self, one: Instance) -> None:
        parent = one.parent
        self._db.execute(
            f"INSERT OR REPLACE INTO instances ({_INSTANCE}) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
            (
                one.instance_id,
                one.execution_id,
                one.name,
                one.version,
                one.input,
                one.status.value,
                one.custom_status,
                one.output,
                stamp(one.created_at),
                stamp(one.updated_at),
                parent.instance_id if parent else None,
                parent.execution_id if parent else None,
                parent.task_id if parent else None,
                one.note,
            ),
        )

    def instance(self, instance_id: str) -> Instance | None:
        row = self._db.execute(f"SELECT {_INSTANCE} FROM instances WHERE instance_id = ?", (instance_id,)).fetchone()
        return None if row is None else _instance(row)

    def instances(
        self,
        *,
        created_from: datetime | None = None,
        created_to: datetime | None = None,
        statuses: Sequence[Status] = (),
        prefix: str = "",
        after: str = "",
        limit: int = -1,
    ) -> list[Instance]:
        """Returns instances in the order of their ids. `after` is the last id of the previous page. A `limit` of -1
        means no limit.
        """
        where, values = ["instance_id > ?"], [after]
        if created_from is not None:
            where.append("created_at >= ?")
            values.append(stamp(created_from))
        if created_to is not None:
            where.append("created_at <= ?")
            values.append(stamp(created_to))
        if statuses:
            where.append(f"status IN ({','.join('?' * len(statuses))})")
            values.extend(status.value for status in statuses)
        if prefix:
            where.append("substr(instance_id, 1, ?) = ?")
            values.extend((len(prefix), prefix))  # type: ignore[arg-type]  # one list of SQL values
        rows = self._db.execute(
            f"SELECT {_INSTANCE} FROM instances WHERE {' AND '.join(where)} ORDER BY instance_id LIMIT ?",
            (*values, limit),
        )
        return [_instance(row) for row in rows]

    def notes(self) -> list[tuple[str, str, str]]:
        """Returns id, function name and note of the instances that have a note."""
        return self._db.execute("SELECT instance_id, name, note FROM instances WHERE note IS NOT NULL").fetchall()

    def count_by_status(self) -> dict[Status, int]:
        rows = self._db.execute("SELECT status, count(*) FROM instances GROUP BY status")
        return {Status(status): count for status, count in rows}

    def count(self, table: str) -> int:
        return int(self._db.execute(f"SELECT count(*) FROM {table}").fetchone()[0])

    def delete_instance(self, instance_id: str) -> None:
        """Deletes an instance with its history. Messages and activity calls of the instance stay in their queues."""
        for table in ("instances", "history"):
            self._db.execute(f"DELETE FROM {table} WHERE instance_id = ?", (instance_id,))

    # --- history

    def history(self, instance_id: str, execution_id: str) -> list[Event]:
        rows = self._db.execute(
            "SELECT kind, event_id, at, data FROM history WHERE instance_id = ? AND execution_id = ? ORDER BY seq",
            (instance_id, execution_id),
        )
        return [Event(_KINDS[kind], event_id, at, json.loads(data)) for kind, event_id, at, data in rows]

    def append_history(self, instance_id: str, execution_id: str, first_seq: int, events: Iterable[Event]) -> None:
        self._db.executemany(
            "INSERT INTO history (instance_id, execution_id, seq, kind, event_id, at, data) VALUES (?,?,?,?,?,?,?)",
            [
                (instance_id, execution_id, seq, int(one.kind), one.event_id, one.at, json.dumps(one.data))
                for seq, one in enumerate(events, first_seq)
            ],
        )

    def delete_history(self, instance_id: str) -> None:
        self._db.execute("DELETE FROM history WHERE instance_id = ?", (instance_id,))

    # --- messages to instances

    def post(
        self,
        instance_id: str,
        execution_id: str | None,
        kind: Kind,
        data: Mapping[str, Any],
        visible_at: datetime,
    ) -> None:
        self._db.execute(
            "INSERT INTO messages (instance_id, execution_id, kind, data, visible_at) VALUES (?,?,?,?,?)",
            (instance_id, execution_id, int(kind), json.dumps(data), stamp(visible_at)),
        )

    def due_messages(self, instance_id: str, now: datetime) -> list[Message]:
        """Returns the visible messages to an instance, in the order in which they became visible."""
        rows = self._db.execute(
            "SELECT seq, instance_id, execution_id, kind, data, visible_at FROM messages "
            "WHERE instance_id = ? AND visible_at <= ? ORDER BY visible_at, seq",
            (instance_id, stamp(now)),
        )
        return [
            Message(seq, instance, execution, _KINDS[kind], json.loads(data), visible_at)
            for seq, instance, execution, kind, data, visible_at in rows
        ]

    def wake_times(self) -> list[tuple[str, datetime, bool]]:
        """Returns (id, time, `True` for operations of an entity) for the waiting messages, which become visible at that
        time.
        """
        rows = self._db.execute(
            "SELECT DISTINCT instance_id, visible_at, kind = ? AND json_type(data, '$.op') IS NOT NULL FROM messages",
            (int(Kind.GENERIC),),
        )
        return [(one, parse_stamp(visible_at), bool(operation)) for one, visible_at, operation in rows]

    def delete_messages(self, seqs: Iterable[int]) -> None:
        self._db.executemany("DELETE FROM messages WHERE seq = ?", [(seq,) for seq in seqs])

    def postpone(self, seqs: Iterable[int], until: datetime) -> None:
        """Hides messages until `until`."""
        self._db.executemany("UPDATE messages SET visible_at = ? WHERE seq = ?", [(stamp(until), seq) for seq in seqs])

    # --- activities

    def add_activity(
        self, instance_id: str, execution_id: str, task_id: int, name: str, text: str | None
    ) -> ActivityTask:
        row = self._db.execute(
            "INSERT INTO activities (instance_id, execution_id, task_id, name, input) VALUES (?,?,?,?,?) RETURNING seq",
            (instance_id, execution_id, task_id, name, text),
        ).fetchone()
        return ActivityTask(row[0], instance_id, execution_id, task_id, name, text)

    def activities(self) -> list[tuple[ActivityTask, datetime | None]]:
        """Returns the calls without a result, each with the time until which the call is hidden."""
        rows = self._db.execute(
            "SELECT hidden_until, seq, instance_id, execution_id, task_id, name, input FROM activities ORDER BY seq"
        )
        return [(ActivityTask(*row), None if until is None else parse_stamp(until)) for until, *row in rows]

    def delete_activity(self, seq: int) -> bool:
        """Deletes an activity call. Returns `False` if the call was deleted before, since a repeated result counts
        once.
        """
        return self._db.execute("DELETE FROM activities WHERE seq = ?", (seq,)).rowcount == 1

    # --- taken messages and calls

    def hide(self, table: str, seqs: Iterable[int], until: datetime) -> None:
        """Hides messages or activity calls from the next process, until `until`."""
        self._db.execute(
            f"UPDATE {table} SET hidden_until = ? WHERE seq IN (SELECT value FROM json_each(?))",
            (stamp(until), json.dumps(list(seqs))),
        )

    def give_back(self) -> None:
        """Makes hidden messages and calls visible, since this process ends without finishing them."""
        for table in ("messages", "activities"):
            self._db.execute(f"UPDATE {table} SET hidden_until = NULL WHERE hidden_until IS NOT NULL")

    def take_over(self, now: datetime) -> tuple[int, datetime | None]:
        """Makes the messages that the previous process hid visible at the end of their timeouts. Each process must call
        this function once.

        Returns the number of hidden messages and calls, and the latest end of their timeouts or None.
        """
        count, latest = self._db.execute(
            "SELECT count(*), max(hidden_until) FROM (SELECT hidden_until FROM messages UNION ALL "
            "SELECT hidden_until FROM activities) WHERE hidden_until > ?",
            (stamp(now),),
        ).fetchone()
        self._db.execute(
            "UPDATE messages SET visible_at = max(visible_at, hidden_until), hidden_until = NULL "
            "WHERE hidden_until IS NOT NULL"
        )
        return count, None if latest is None else parse_stamp(latest)

    # --- entities

    def entity(self, entity_id: str) -> str | None:
        """Returns the state as JSON text, or `None` if the entity does not exist."""
        row = self._db.execute("SELECT state FROM entities WHERE entity_id = ?", (entity_id,)).fetchone()
        return None if row is None else row[0]

    def entities(
        self, prefix: str, after: str, limit: int, used_from: datetime | None, used_to: datetime | None
    ) -> list[tuple[str, str, str]]:
        """Returns id, state and last use of the entities whose id begins with `prefix`, in the order of their ids."""
        return self._db.execute(
            "SELECT entity_id, state, updated_at FROM entities WHERE substr(entity_id, 1, ?) = ? AND entity_id > ? "
            "AND updated_at BETWEEN ? AND ? ORDER BY entity_id LIMIT ?",
            (
                len(prefix),
                prefix,
                after,
                stamp(used_from) if used_from else "",
                stamp(used_to) if used_to else "~",
                limit,
            ),
        ).fetchall()

    def put_entity(self, entity_id: str, state: str | None, now: datetime) -> None:
        if state is None:
            self._db.execute("DELETE FROM entities WHERE entity_id = ?", (entity_id,))
        else:
            self._db.execute(
                "INSERT OR REPLACE INTO entities (entity_id, state, updated_at) VALUES (?,?,?)",
                (entity_id, state, stamp(now)),
            )

    # --- state of the host around the engine

    def state(self, name: str) -> Mapping[str, Any] | None:
        """Returns state that a part of the host has stored under `name`, or None."""
        row = self._db.execute("SELECT data FROM host_state WHERE name = ?", (name,)).fetchone()
        return None if row is None else json.loads(row[0])

    def put_state(self, name: str, data: Mapping[str, Any]) -> None:
        self._db.execute("INSERT OR REPLACE INTO host_state (name, data) VALUES (?,?)", (name, json.dumps(data)))


class RecentHistories:
    """A cache of histories, so that an episode does not read and parse the history that the previous episode wrote.

    The cache drops the least recently used histories first. The key has the execution id, so that a replaced instance
    does not get an old history.
    """

    def __init__(self, max_events: int = MAX_RECENT_EVENTS) -> None:
        self._max_events = max_events
        self._histories: OrderedDict[tuple[str, str], list[Event]] = OrderedDict()
        self._count = 0

    def take(self, instance_id: str, execution_id: str) -> list[Event] | None:
        """Removes and returns a history. `put` stores the history again after a commit."""
        history = self._histories.pop((instance_id, execution_id), None)
        if history is not None:
            self._count -= len(history)
        return history

    def put(self, instance_id: str, execution_id: str, history: Sequence[Event]) -> None:
        self._histories[(instance_id, execution_id)] = list(history)
        self._count += len(history)
        while self._count > self._max_events and self._histories:
            _, oldest = self._histories.popitem(last=False)
            self._count -= len(oldest)


_KINDS = {int(kind): kind for kind in Kind}


def _instance(row: Sequence[Any]) -> Instance:
    parent = Parent(row[10], row[11], row[12]) if row[10] is not None else None
    return Instance(
        instance_id=row[0],
        execution_id=row[1],
        name=row[2],
        version=row[3],
        input=row[4],
        status=Status(row[5]),
        custom_status=row[6],
        output=row[7],
        created_at=parse_stamp(row[8]),
        updated_at=parse_stamp(row[9]),
        parent=parent,
        note=row[13],
    )
