"""The operations on orchestrations behind the extension's HTTP API: start, raise, terminate, rewind and the others."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from functions_emulator.durable.engine import Engine
from functions_emulator.durable.errors import (
    FunctionNotFoundError,
    InstanceExistsError,
    InstanceGoneError,
    InstanceNotFoundError,
    InvalidInstanceIdError,
    WrongStatusError,
)
from functions_emulator.durable.events import Event, Instance, Kind, Status

_LOG = logging.getLogger("functions_emulator.durable")

_FORBIDDEN_IN_IDS = frozenset("/\\#?")


class Client:
    """The operations on instances. Raises `InstanceNotFoundError` for an unknown id. Operations on live instances raise
    `InstanceGoneError` for an ended instance.
    """

    def __init__(self, engine: Engine, default_version: str | None = None, *, replace_running: bool = False) -> None:
        """Sets the engine.

        `replace_running` is `True` if `overridableExistingInstanceStates` of host.json is `AnyState`.
        """
        self._engine = engine
        self._store = engine.store
        self._default_version = default_version
        self._replace_running = replace_running

    def start(self, name: str, instance_id: str | None, input_text: str | None, version: str | None = None) -> str:
        """Starts an orchestration and returns its id.

        The orchestration replaces a finished instance with that id. A live instance with that id raises
        `InstanceExistsError`, unless `replace_running` is `True`. `input_text` is the JSON text as the client posted
        it.

        Any name and id are accepted, as by HandleStartOrchestratorRequestAsync in HttpApiHandler.cs of the extension.
        An instance of an unknown orchestrator fails in its first episode.
        """
        if not instance_id:
            instance_id = uuid.uuid4().hex
        try:
            name = self._engine.catalog.resolve("orchestrator", name)
        except FunctionNotFoundError as error:
            _LOG.error("orchestration %s was started and will fail: %s", instance_id, error)
        with self._store.transaction():
            existing = self._store.instance(instance_id)
            if existing is not None and not existing.status.is_terminal and not self._replace_running:
                raise InstanceExistsError(instance_id, existing.status)
            self._engine.create(name, instance_id, input_text, version or self._default_version)
        return instance_id

    def raise_event(self, instance_id: str, name: str, data_text: str | None) -> None:
        """Sends an external event. `data_text` is JSON text."""
        self._post(instance_id, Kind.EVENT_RAISED, {"Name": name, "Input": data_text})

    def terminate(self, instance_id: str, reason: str | None) -> None:
        """Ends the instance at the next read of its messages. `reason` becomes the output of the instance."""
        self._post(instance_id, Kind.EXECUTION_TERMINATED, {"Input": reason})

    def suspend(self, instance_id: str, reason: str) -> None:
        self._post(instance_id, Kind.EXECUTION_SUSPENDED, {"Input": reason})

    def resume(self, instance_id: str, reason: str) -> None:
        self._post(instance_id, Kind.EXECUTION_RESUMED, {"Input": reason})

    def restart(self, instance_id: str, *, with_new_id: bool) -> str:
        """Starts the same function with the same input again and returns the id.

        Raises `InstanceNotFoundError` or `FunctionNotFoundError` for an unknown one. With the same id, raises
        `InstanceExistsError` for a live instance, and `InvalidInstanceIdError` for an id that only a start accepts
        (StartNewAsync in DurableClient.cs of the extension).
        """
        old = self._existing(instance_id)
        self._engine.catalog.resolve("orchestrator", old.name)
        if not with_new_id:
            _check_id(instance_id)
            if not old.status.is_terminal:
                raise InstanceExistsError(instance_id, old.status)
        return self.start(old.name, None if with_new_id else instance_id, old.input, old.version)

    def rewind(self, instance_id: str, reason: str) -> None:
        """Removes the failures from the history of a failed instance, so that the engine repeats the failed calls.

        Raises `WrongStatusError` if the instance has not failed.
        """
        old = self._existing(instance_id)
        if old.status is not Status.FAILED:
            raise WrongStatusError("The rewind operation is only supported on failed orchestration instances.")
        now = self._engine.clock.now()
        with self._store.transaction():
            past = self._store.history(instance_id, old.execution_id)
            kept, children = _rewound(past)
            if _continued_after_failure(past):
                _LOG.warning(
                    "rewind of %s: the code continued after a failed call, as retries do. A rewind does not undo this, "
                    "so the instance can fail as non-deterministic, as on Azure",
                    instance_id,
                )
            self._store.delete_history(instance_id)
            self._store.append_history(instance_id, old.execution_id, 0, kept)
            self._store.put_instance(replace(old, status=Status.RUNNING, output=None, updated_at=now))
            for child in children:
                failed = self._store.instance(child)
                if failed is not None and failed.status is Status.FAILED:
                    self.rewind(child, reason)
            # A generic event has no meaning for the code; it makes the instance run an episode.
            self._engine.post(instance_id, None, Kind.GENERIC, {"Data": reason}, now)

    def purge(self, instance_id: str) -> None:
        """Deletes a finished orchestration, or an entity with the id `@name@key`, the name in lower case.

        Raises `WrongStatusError` for a live orchestration, unless its id begins with `@`, since the extension treats
        such an id as an entity (pull request 3311).
        """
        instance = self._store.instance(instance_id)
        if instance is None and self._store.entity(instance_id) is None:
            raise InstanceNotFoundError(instance_id)
        if instance is not None and not (instance.status.is_terminal or instance_id.startswith("@")):
            raise WrongStatusError(f"The instance '{instance_id}' is {instance.status} and cannot be purged.")
        self._delete(instance_id)

    def purge_by(
        self, created_from: datetime, created_to: datetime | None, statuses: Sequence[Status] | None = None
    ) -> int:
        """Deletes the instances that were created in the range and have one of `statuses`. Returns their number.

        Without `statuses`, deletes instances of every status, also live ones, and entities. The creation time of an
        entity is the time of its last batch, since each batch continues the entity as new.
        """
        if statuses is not None and not statuses:
            return 0
        found = self.find(created_from=created_from, created_to=created_to, statuses=statuses or ())
        ids = {one.instance_id for one in found}
        if statuses is None:
            ids.update(one for one, *_ in self._store.entities("@", "", -1, created_from, created_to))
        for instance_id in ids:
            self._delete(instance_id)
        return len(ids)

    def _delete(self, instance_id: str) -> None:
        """Deletes the rows of an id. Messages to it stay in its queues."""
        now = self._engine.clock.now()
        with self._store.transaction():
            self._store.delete_instance(instance_id)
            self._store.put_entity(instance_id, None, now)
        self._engine.reports.forget(instance_id, now)

    def status(self, instance_id: str) -> Instance:
        return self._existing(instance_id)

    def find(
        self,
        *,
        created_from: datetime | None = None,
        created_to: datetime | None = None,
        statuses: Sequence[Status] = (),
        prefix: str = "",
        after: str = "",
        limit: int = -1,
    ) -> list[Instance]:
        """Returns instances in the order of their ids, at most `limit`. `after` is the last id of the previous page."""
        return self._store.instances(
            created_from=created_from,
            created_to=created_to,
            statuses=statuses,
            prefix=prefix,
            after=after,
            limit=limit,
        )

    def history(self, instance: Instance) -> list[Event]:
        return self._store.history(instance.instance_id, instance.execution_id)

    def _existing(self, instance_id: str) -> Instance:
        instance = self._store.instance(instance_id)
        if instance is None:
            raise InstanceNotFoundError(instance_id)
        return instance

    def check_live(self, instance_id: str) -> None:
        """Raises `InstanceNotFoundError` or `InstanceGoneError` unless the instance is live."""
        instance = self._existing(instance_id)
        if instance.status.is_terminal:
            raise InstanceGoneError(instance_id, instance.status)

    def _post(self, instance_id: str, kind: Kind, data: dict[str, Any]) -> None:
        self.check_live(instance_id)
        with self._store.transaction():
            self._engine.post(instance_id, None, kind, data, self._engine.clock.now())


def _check_id(instance_id: str) -> None:
    if instance_id.startswith("@") or any(char in _FORBIDDEN_IN_IDS or ord(char) < 32 for char in instance_id):
        raise InvalidInstanceIdError(
            f"{instance_id!r} is not a valid instance id: "
            "it must not start with @, or contain / \\ # ? or control characters"
        )


def _rewound(past: Sequence[Event]) -> tuple[list[Event], list[str]]:
    """Returns the history without failures and completion, and the sub-orchestrations that failed in it."""
    failed = {one.data["TaskScheduledId"] for one in past if one.kind in _FAILED}
    children: list[str] = []
    kept: list[Event] = []
    for event in past:
        if event.kind is Kind.SUB_ORCHESTRATION_CREATED and event.event_id in failed:
            children.append(str(event.data["InstanceId"]))
            kept.append(event)  # the child is rewound itself; its result has the same task id
        elif not (event.kind in _ENDED or (event.kind is Kind.TASK_SCHEDULED and event.event_id in failed)):
            kept.append(event)
    return kept, children


def _continued_after_failure(past: Sequence[Event]) -> bool:
    first = next((index for index, one in enumerate(past) if one.kind in _FAILED), len(past))
    return any(one.kind in _DECISIONS for one in past[first:])


_DECISIONS = frozenset({Kind.TASK_SCHEDULED, Kind.TIMER_CREATED, Kind.SUB_ORCHESTRATION_CREATED, Kind.EVENT_SENT})
_FAILED = frozenset({Kind.TASK_FAILED, Kind.SUB_ORCHESTRATION_FAILED})
_ENDED = _FAILED | {Kind.EXECUTION_COMPLETED}
