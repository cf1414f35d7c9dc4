"""Reads the versions of a protocol, with the number of living jobs of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from shared.core.registry import Protocol, Registry, build_protocol
from shared.errors import ProtocolError
from shared.ports.protocol_versions import ProtocolVersions, StoredVersion
from shared.ports.sweeps import SweepMarks, merged, version_name


@dataclass(frozen=True, kw_only=True)
class Version:
    """One version of a protocol, with its share of new jobs and its number of living jobs."""

    protocol: Protocol
    is_loaded: bool
    #: percent of new jobs that the version gets, among requests that name no version
    new_jobs_percent: float
    #: time of the first load; None if no process has written its row yet
    first_loaded_at: datetime | None
    #: number of living jobs; None if not counted
    jobs: int | None


@dataclass(frozen=True)
class Versions:
    """All versions of a protocol, with the time of their job counts."""

    #: versions, the highest first
    versions: Sequence[Version]
    #: end of the last sweep, whose counts can be of an earlier sweep; None if not counted
    counted_at: datetime | None


async def read_versions(
    registry: Registry, rows: ProtocolVersions, request_type: str, marks: SweepMarks | None, sweepers: int
) -> Versions:
    """Reads the versions with two table queries: the rows of all versions, and the sweepers' marks, which have the
    counts of living jobs.

    `marks`: None for a caller that cannot see the jobs of all tenants. Raises LedgerUnavailable.
    """
    loaded = {each.key: each for each in registry.versions(request_type)}
    ids = {protocol_id for protocol_id, _ in loaded}
    stored = {(each.protocol_id, each.version): each for each in await rows.read() if each.protocol_id in ids}
    mark = merged((await marks.read(sweepers)).values()) if marks is not None else None
    protocols = {key: _rebuilt(row) for key, row in stored.items() if key not in loaded} | loaded
    found = [
        Version(
            protocol=protocol,
            is_loaded=key in loaded,
            new_jobs_percent=_percent(registry, loaded.get(key)),
            first_loaded_at=stored[key].first_loaded_at if key in stored else None,
            jobs=mark.counts.versions[version_name(request_type, key[1])] if mark is not None else None,
        )
        for key, protocol in sorted(protocols.items(), key=lambda item: -item[0][1])
        if protocol is not None
    ]
    return Versions(found, mark.ended_at if mark is not None else None)


def _percent(registry: Registry, protocol: Protocol | None) -> float:
    if protocol is None:
        return 0.0
    newest = registry.versions(protocol.definition.request_type)[0]
    ramp = newest.definition.ramp_percent
    if protocol is newest:
        return 100.0 if ramp is None else ramp
    is_base = protocol is registry.find(protocol.definition.request_type)
    return 100.0 - ramp if is_base and ramp is not None else 0.0


def _rebuilt(row: StoredVersion) -> Protocol | None:
    """Makes the protocol of a row, even if the bus topology no longer has its services. Returns None if only a later
    release can read the row.
    """
    try:
        services = {step["service"]: step["step_type"] for step in row.definition["steps"]}
        return build_protocol("the stored version", row.definition, row.schemas, services)
    except (ProtocolError, KeyError, TypeError):
        return None
