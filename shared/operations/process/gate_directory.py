"""The tenants with quotas, as one process knows them. So a job of a tenant without quotas costs no read (R48)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from weakref import WeakValueDictionary

from shared import telemetry
from shared.core.gates.rules import ALLOCATED, EVERY, Directory, Gate, GateKind, GateState, Rule
from shared.errors import LedgerUnavailable
from shared.operations.process.directory_copy import DirectoryCopy
from shared.ports.admissions import AdmissionStates, DirectoryRows
from shared.settings import Settings
from shared.time_limits import time_limit

#: maximum age of the copy of the directory
DIRECTORY_LIVES = timedelta(seconds=10)
#: maximum random reduction of that age, so that processes that started together do not read together
_JITTER = timedelta(seconds=2)
#: maximum age of the copy while the directory cannot be read, and minimum time between two tries
_OUTAGE, _TRY_AGAIN = timedelta(minutes=5), timedelta(seconds=2)
#: maximum seconds of one try, for which requests wait: less if there is a copy
_TRY_S, _FIRST_TRY_S = 3.0, 20.0
#: minimum time between two requests of a process to allocate one quota
_BETWEEN_CALLS = timedelta(seconds=1)
LIMIT_SETTING = "LUCIUS_MAX_INFLIGHT_PER_TENANT"
PLATFORM_SETTING = "LUCIUS_MAX_INFLIGHT"
BURST_SETTING = "LUCIUS_MAX_INFLIGHT_BURST"


class Turn(asyncio.Lock):
    """The turn of one process at an admission state, with the work that waits for the turn. One writer has the turn at
    a time.
    """

    def __init__(self) -> None:
        super().__init__()
        #: jobs whose ends wait for a turn that starts after their call
        self.ended: set[str] = set()
        #: `True` if a log entry already existed at the last write
        self.is_behind = False
        #: held by the end, the creation or the joining job that writes for the others in these lists
        self.ends, self.creations, self.joining = asyncio.Lock(), asyncio.Lock(), asyncio.Lock()
        #: time of this process's last request for a turn
        self.called_at: datetime | None = None
        #: end of the time in which new jobs are staged immediately, since the quotas or the counts were not known
        self.stages_until: datetime | None = None
        #: new jobs, and accepted jobs that have not joined the waiting queue yet
        self.arrivals: list[Any] = []
        self.joins: list[Any] = []


class GateDirectory:
    """The directory of quotas as last read, and the turns of this process's writers at each admission state."""

    def __init__(self) -> None:
        self._known = Directory()
        self._copy = DirectoryCopy()
        #: time before which nothing is read
        self._quiet_until: datetime | None = None
        #: time of the last complete read
        self._read_last: datetime | None = None
        #: fault of the last try; None if it succeeded
        self._fault: Exception | None = None
        #: keys of rows that could not be decoded
        self._unread: set[str] = set()
        #: number of this process's changes of the directory
        self._changes = 0
        self._reading = asyncio.Lock()
        #: time of the last requested allocation by quota id
        self._allocation_calls: dict[str, datetime] = {}
        #: turns by tenant; a turn is dropped, with its state, when no caller uses it
        self._turns: WeakValueDictionary[str, Turn] = WeakValueDictionary()

    def turn(self, tenant: str) -> Turn:
        """Returns the lock that serializes this process's writers of an admission state, so that they race with other
        processes only.
        """
        return self._turns.setdefault(tenant, Turn())

    async def read(
        self, admissions: AdmissionStates, settings: Settings, now: datetime, random: Callable[[], float]
    ) -> Directory:
        """Returns the directory, at most ten seconds old.

        If it cannot be read, returns the last copy, up to five minutes old. One caller tries again after two to four
        seconds, and no other caller waits for that try. `random`: returns a number from 0 to 1. Raises
        LedgerUnavailable.
        """
        if not self._is_quiet(now) and not (self._fault is not None and self._reading.locked()):
            async with self._reading:
                if not self._is_quiet(now):
                    await self._read(admissions, settings, now, random)
        if self._fault is not None and (self._read_last is None or now - self._read_last >= _OUTAGE):
            if isinstance(self._fault, LedgerUnavailable):
                raise self._fault.with_traceback(None)
            raise LedgerUnavailable(f"the directory of quotas cannot be read: {type(self._fault).__name__}")
        return self._known

    async def _read(
        self, admissions: AdmissionStates, settings: Settings, now: datetime, random: Callable[[], float]
    ) -> None:
        changes = self._changes
        try:
            async with time_limit(_FIRST_TRY_S if self._read_last is None else _TRY_S):
                unread_group = await self._copy.refresh(admissions, now, random)
                self._known = await _with_settings(self._copy.rows, admissions, settings, now)
            if unread_group is not None:
                raise unread_group
        except Exception as fault:
            # also a defect of a decoder: it must not concern tenants without quotas
            self._fault, wait = fault, _TRY_AGAIN * (1 + random())
            telemetry.record_fault(fault, "DIRECTORY_UNREAD")
        else:
            self._fault, self._read_last, wait = None, now, DIRECTORY_LIVES - _JITTER * random()
        for row in set(self._copy.rows.unread) - self._unread:
            telemetry.warn("ROW_UNDECODABLE", row=row)
        self._unread = set(self._copy.rows.unread)
        # the read may have missed changes of this process
        self._quiet_until = now + wait if changes == self._changes else None

    @property
    def last_known(self) -> Directory:
        """Returns the last copy, of any age. The copy is empty if the directory was never read."""
        return self._known

    @property
    def unread(self) -> frozenset[str]:
        """Returns keys of the rows that could not be decoded in the last read."""
        return frozenset(self._unread)

    def is_outdated(self, now: datetime) -> bool:
        """Returns `True` if the copy is older than ten seconds, or if the directory was never read."""
        return self._read_last is None or now - self._read_last > DIRECTORY_LIVES

    def due_allocation(self, gate_id: str, now: datetime) -> datetime | None:
        """Returns the time for this process's next requested allocation of the quota, at most one a second. None means
        that the process has already requested a later allocation.
        """
        until = self._allocation_calls.get(gate_id)
        if until is not None and until > now:
            return None
        at = now if until is None or now - until >= _BETWEEN_CALLS else until + _BETWEEN_CALLS
        self._allocation_calls[gate_id] = at
        return at

    def forget(self) -> None:
        """Makes the next `read` refresh the copy at once, since this process has changed the directory."""
        self._quiet_until = None
        self._changes += 1

    def _is_quiet(self, now: datetime) -> bool:
        return self._quiet_until is not None and now < self._quiet_until


async def _with_settings(
    rows: DirectoryRows, admissions: AdmissionStates, settings: Settings, now: datetime
) -> Directory:
    """Returns the directory with the limits of the settings. Stores, for all processes, the time since which such
    limits exist, and deletes that time after the last limit was removed.
    """
    since, limits = rows.settings_since, _of_settings(settings)
    if bool(limits) != (since is not None):
        since = now if limits else None
        await admissions.note_settings(since)
    defaults = {key: rule for key, (rule, _) in rows.defaults.items()}
    over_all = {id_: state for id_, (state, _) in rows.over_all.items()}
    began = {id_: at for id_, (_, at) in rows.over_all.items()}
    for gate, rule in limits.items():
        if gate.kind is GateKind.TENANT:
            defaults.setdefault((gate.kind, gate.name), rule)
        elif (known := over_all.get(gate.id, GateState(gate=gate))).rule is None:
            over_all[gate.id] = replace(known, rule=rule)
            # its row sets no limit, so the time of the row does not count
            began[gate.id] = since or now
    opened = [began for _, began in rows.defaults.values()] + ([since] if since is not None else [])
    # dispatch limits concern no admission state
    opened += [began for state, began in rows.over_all.values() if state.gate.kind in ALLOCATED]
    return Directory(
        tenants=rows.tenants,
        defaults=defaults,
        over_all=over_all,
        over_all_since=began,
        since=min(opened, default=None),
    )


def _of_settings(settings: Settings) -> dict[Gate, Rule]:
    """Returns the limits of the settings as quotas (R16)."""
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
