"""The registered orchestrators, activities and entities. Function names are compared without regard to case."""

from __future__ import annotations

from collections.abc import Iterable

from functions_emulator.durable.actions import Action, CallActivity, CallEntity, CallSubOrchestration, SignalEntity
from functions_emulator.durable.errors import FunctionNotFoundError


class Catalog:
    """The names of durable functions, by kind."""

    def __init__(self, orchestrators: Iterable[str], activities: Iterable[str], entities: Iterable[str] = ()) -> None:
        self._names = {
            "orchestrator": {name.lower(): name for name in orchestrators},
            "activity": {name.lower(): name for name in activities},
            "entity": {name.lower(): name for name in entities},
        }

    def resolve(self, kind: str, name: str) -> str:
        """Returns the name as it was registered. Raises `FunctionNotFoundError` for an unknown name.

        `kind` is `orchestrator`, `activity` or `entity`.
        """
        names = self._names[kind]
        registered = names.get(name.lower())
        if registered is None:
            raise FunctionNotFoundError(kind, name, sorted(names.values()))
        return registered

    def problem(self, action: Action) -> str | None:
        """Returns the reason why the extension does not schedule this action, or `None`."""
        try:
            match action:
                case CallActivity(name):
                    self.resolve("activity", name)
                case CallSubOrchestration(name, instance_id=instance_id):
                    self.resolve("orchestrator", name)
                    if instance_id is not None and instance_id.startswith("@"):
                        return f"Orchestration instance ids must not start with @: {instance_id}."
                case CallEntity(entity) | SignalEntity(entity):
                    self.resolve("entity", entity_name(entity))
        except FunctionNotFoundError as error:
            return str(error)
        return None


def entity_name(entity_id: str) -> str:
    """Returns `name` of `@name@key`."""
    return entity_id.split("@", 2)[1]
