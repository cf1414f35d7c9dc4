"""Fixes the steps of a protocol version at its first load. Other steps under the same version are refused.

So all jobs of a version follow the same steps, and a job's `protocol_version` identifies them. The first process that
loads a version writes its row. Every process compares its loaded versions with the rows, and reads the rows when it
finds an unknown version.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from shared import telemetry
from shared.core.registry import Protocol, Registry, VersionKey, build_protocol
from shared.errors import LuciusError, ProtocolError
from shared.ports.environment import Clock
from shared.ports.protocol_versions import ProtocolVersions, StoredVersion


class FirstLoaded:
    """The versions that this process knows, by their keys."""

    def __init__(self, rows: ProtocolVersions | None, services: Mapping[str, str], clock: Clock) -> None:
        self._rows = rows
        self._services = services
        self._clock = clock
        #: None if the row's steps need a service that the bus topology no longer has
        self._known: dict[VersionKey, Protocol | None] = {}
        self._refused: frozenset[VersionKey] = frozenset()

    async def check(self, loaded: Registry) -> bool:
        """Compares new versions with their rows. Returns `False` if the rows could not be read or written. Raises
        nothing.
        """
        new = [each for each in loaded.every_version if each.key not in self._known]
        if not new or self._rows is None:
            self._known |= {each.key: each for each in new}
            return True
        try:
            stored = {(each.protocol_id, each.version): each for each in await self._rows.read()}
            for each in new:
                if each.key not in stored and await self._rows.add(_make_stored_version(each, self._clock)):
                    self._known[each.key] = each
            if any(each.key not in stored and each.key not in self._known for each in new):
                # another process was first
                stored = {(each.protocol_id, each.version): each for each in await self._rows.read()}
        except LuciusError as fault:
            # also if the table refuses the row: the protocol is used anyway
            telemetry.warn("PROTOCOL_VERSIONS_UNREAD", reason=fault)
            return False
        for each in new:
            if (row := stored.get(each.key)) is not None:
                self._known[each.key] = each if row.work_digest == each.work_digest else self._rebuilt(row)
        return True

    def in_effect(self, loaded: Registry, before: Registry) -> tuple[Registry, tuple[str, ...]]:
        """Returns `loaded` with the known steps of each version, and an error text for each refused version.

        `before` stays in effect if `loaded` with the known steps is not a valid registry.
        """
        found: list[Protocol] = []
        refused: dict[VersionKey, str] = {}
        for each in loaded.every_version:
            known = self._known.get(each.key, each)
            if known is not None and known.work_digest == each.work_digest:
                found.append(each)
                continue
            name, version = each.key
            effect = "which stays in effect" if known is not None else "which this release cannot load"
            refused[each.key] = (
                f"protocol {name} version {version} differs from its first loaded definition, {effect}, in the job "
                "type, steps, parallel groups or payload schemas; raise `version`"
            )
            if known is not None:
                ramp = {"ramp_percent": each.definition.ramp_percent}
                found.append(replace(known, definition=known.definition.model_copy(update=ramp)))
        self._report(frozenset(refused))
        try:
            return Registry(found, loaded.services), tuple(refused.values())
        except ProtocolError as wrong:
            return before, (*refused.values(), str(wrong))

    def _report(self, refused: frozenset[VersionKey]) -> None:
        for protocol_id, version in sorted(refused - self._refused):
            telemetry.warn(
                "PROTOCOL_VERSION_REFUSED", protocol_id=protocol_id, version=version, reason="VERSION_CHANGED"
            )
        self._refused = refused
        telemetry.set_gauge("protocol_versions_refused", len(refused))

    def _rebuilt(self, row: StoredVersion) -> Protocol | None:
        try:
            return build_protocol("the stored version", row.definition, row.schemas, self._services)
        except ProtocolError:
            return None


def _make_stored_version(protocol: Protocol, clock: Clock) -> StoredVersion:
    definition = protocol.definition
    schemas = {
        step.payload_schema: protocol.schemas[step.step_id]
        for step in definition.steps
        if step.payload_schema is not None
    }
    return StoredVersion(
        protocol_id=definition.protocol_id,
        version=definition.version,
        work_digest=protocol.work_digest,
        definition=definition.model_dump(mode="json", exclude_defaults=True, exclude={"ramp_percent"}),
        schemas=schemas,
        first_loaded_at=clock.now(),
    )
