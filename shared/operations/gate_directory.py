"""Which tenants have gates, as one process knows it: nothing is read for a job of a tenant without any (R48)."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from weakref import WeakValueDictionary

from shared import telemetry
from shared.core.gates.rules import DIVIDED, EVERY, Directory, Gate, GateKind, GateState, Rule
from shared.errors import LedgerUnavailable, LuciusError
from shared.ports.desks import Desks
from shared.settings import Settings

#: how long a process relies on the directory that it read
DIRECTORY_LIVES = timedelta(seconds=10)
#: how long a process goes on with the last copy while the directory cannot be read, and how often it tries
_OUTAGE, _TRY_AGAIN = timedelta(minutes=5), timedelta(seconds=2)
#: a process calls for a division of one gate so often at most
_BETWEEN_CALLS = timedelta(seconds=1)
LIMIT_SETTING = "LUCIUS_MAX_INFLIGHT_PER_TENANT"
PLATFORM_SETTING = "LUCIUS_MAX_INFLIGHT"
BURST_SETTING = "LUCIUS_MAX_INFLIGHT_BURST"


class Turn(asyncio.Lock):
    """One writer of a desk at a time in a process, and what waits for it."""

    def __init__(self) -> None:
        super().__init__()
        #: callers that asked for an admission, by number, and up to which one a turn has begun after they asked
        self.asked = 0
        self.covered = 0
        #: an entry of a log was there already at the last write
        self.is_behind = False
        #: held by the end, or the creation, that works for the others that wait for these
        self.ends, self.creations = asyncio.Lock(), asyncio.Lock()
        #: when this process last had a turn called for
        self.called_at: datetime | None = None
        #: until then creations are staged at once: the quotas or the counts were not known
        self.stages_until: datetime | None = None
        #: creations
        self.arrivals: list[Any] = []


class GateDirectory:
    """The directory as it was read last, and the turns of this process's writers at each desk."""

    def __init__(self) -> None:
        self._known = Directory()
        self._read_at: datetime | None = None
        #: the last time that the store gave it
        self._read_last: datetime | None = None
        #: keys of rows that could not be decoded then
        self._unread: set[str] = set()
        #: how often this process has changed it
        self._changes = 0
        self._reading = asyncio.Lock()
        #: by gate id: until when a division was called for last
        self._divisions: dict[str, datetime] = {}
        #: by tenant, while somebody waits
        self._turns: WeakValueDictionary[str, Turn] = WeakValueDictionary()

    def turn(self, tenant: str) -> Turn:
        """One writer of a desk at a time in a process, which so races other processes only."""
        return self._turns.setdefault(tenant, Turn())

    async def read(self, desks: Desks, settings: Settings, now: datetime) -> Directory:
        """At most ten seconds old; while the store gives none, as it was read last, up to five minutes ago.

        Raises LedgerUnavailable.
        """
        if not self._is_fresh(now):
            async with self._reading:
                if not self._is_fresh(now):
                    await self._read(desks, settings, now)
        return self._known

    async def _read(self, desks: Desks, settings: Settings, now: datetime) -> None:
        changes = self._changes
        try:
            self._known, unread = await _read(desks, settings, now)
        except Exception as fault:
            # also a fault of a decoder: no tenant without quotas shall meet it
            if self._read_last is None or now - self._read_last >= _OUTAGE:
                if isinstance(fault, LuciusError):
                    raise
                raise LedgerUnavailable(f"the directory of quotas cannot be read: {type(fault).__name__}") from fault
            telemetry.record_fault(fault)
            telemetry.warn("DIRECTORY_UNREAD", reason=str(fault))
            self._read_at = now - DIRECTORY_LIVES + _TRY_AGAIN
            return
        for row in set(unread) - self._unread:
            telemetry.warn("ROW_UNDECODABLE", row=row)
        self._unread, self._read_last = set(unread), now
        # what was changed meanwhile may not be in it
        self._read_at = now if changes == self._changes else None

    @property
    def last_known(self) -> Directory:
        """As it was read last, however long ago; empty where it never was."""
        return self._known

    def is_outdated(self, now: datetime) -> bool:
        """Whether it goes on with a copy that is older than usual, since the store gives none."""
        return self._read_last is None or now - self._read_last > DIRECTORY_LIVES

    def division_at(self, gate_id: str, now: datetime) -> datetime | None:
        """When this process calls for the next division of the gate, one in a second; None: one is called for that
        begins after now.
        """
        until = self._divisions.get(gate_id)
        if until is not None and until > now:
            return None
        at = now if until is None or now - until >= _BETWEEN_CALLS else until + _BETWEEN_CALLS
        self._divisions[gate_id] = at
        return at

    def forget(self) -> None:
        """The next look reads it: this process has just changed it."""
        self._read_at = None
        self._changes += 1

    def _is_fresh(self, now: datetime) -> bool:
        return self._read_at is not None and now - self._read_at < DIRECTORY_LIVES


async def _read(desks: Desks, settings: Settings, now: datetime) -> tuple[Directory, tuple[str, ...]]:
    """With the limits of the settings; that one was set, or the last taken back, is noted for all.

    And keys of rows that could not be decoded.
    """
    rows = await desks.directory()
    since, limits = rows.settings_since, _of_settings(settings)
    if bool(limits) != (since is not None):
        since = now if limits else None
        await desks.note_settings(since)
    defaults = {key: rule for key, (rule, _) in rows.defaults.items()}
    over_all = {id_: state for id_, (state, _) in rows.over_all.items()}
    began = {id_: at for id_, (_, at) in rows.over_all.items()}
    for gate, rule in limits.items():
        if gate.kind is GateKind.TENANT:
            defaults.setdefault((gate.kind, gate.name), rule)
        elif (known := over_all.get(gate.id, GateState(gate=gate))).rule is None:
            over_all[gate.id] = replace(known, rule=rule)
            # whatever else is set for it says nothing of the number
            began[gate.id] = since or now
    opened = [began for _, began in rows.defaults.values()] + ([since] if since is not None else [])
    # guards concern no desk
    opened += [began for state, began in rows.over_all.values() if state.gate.kind in DIVIDED]
    directory = Directory(
        tenants=rows.tenants,
        defaults=defaults,
        over_all=over_all,
        over_all_since=began,
        since=min(opened, default=None),
    )
    return directory, rows.unread


def _of_settings(settings: Settings) -> dict[Gate, Rule]:
    """Limits of the settings are gates like others (R16)."""
    limits = {
        LIMIT_SETTING: (Gate(GateKind.TENANT, EVERY), settings.max_inflight_per_tenant),
        PLATFORM_SETTING: (Gate.over_all(GateKind.PLATFORM), settings.max_inflight),
        BURST_SETTING: (Gate.over_all(GateKind.MODE, "BURST"), settings.max_inflight_burst),
    }
    rejects = settings.overflow == "reject"
    return {
        gate: Rule(max_active=limit, rejects=rejects, setting=setting)
        for setting, (gate, limit) in limits.items()
        if limit is not None
    }
