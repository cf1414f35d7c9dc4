"""The protocols and modes of this process: packaged, or read from a store (R41)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from shared import telemetry
from shared.errors import Transient
from shared.operations.protocols.first_loaded import FirstLoaded
from shared.operations.protocols.overrides import CatalogState, apply_overrides
from shared.ports.environment import Clock, ConfigurationStore
from shared.ports.protocol_versions import ProtocolVersions
from shared.time_limits import time_limit

#: maximum seconds for all reads of one refresh (R43), for which a request or reply waits
_CHECK_S = 10.0


class Catalog:
    """The last good protocols and modes. `refresh` reads newer values from the store, at most once in `refresh_s`
    seconds.
    """

    def __init__(
        self,
        store: ConfigurationStore | None,
        packaged: CatalogState,
        *,
        schemas: Mapping[str, Any],
        services: Mapping[str, str],
        clock: Clock,
        refresh_s: float,
        versions: ProtocolVersions | None = None,
    ) -> None:
        self.current = packaged
        #: fault of the last read of the store; None if it succeeded
        self.fault: str | None = None
        #: time of the last read of the store's values, which `refresh` reads if the store's version changed or is
        #: unknown; None if never read
        self.read_at: datetime | None = None
        self._store = store
        self._schemas = schemas
        self._services = services
        self._clock = clock
        self._every = timedelta(seconds=refresh_s)
        self._checked_at: datetime | None = None
        self._version: str | None = None
        self._first_loaded = FirstLoaded(versions, services, clock)
        #: values of files or store, before refusals
        self._loaded = packaged
        #: `True` if every loaded version was compared with its row
        self._compared = False
        self._checking = asyncio.Lock()

    async def refresh(self) -> CatalogState:
        """Refreshes and returns the protocols. Never raises. If the store is unreachable or a value is invalid, the
        last good values stay in effect.
        """
        if not self._due():
            return self.current
        if self._checking.locked() and self._checked_at is not None:
            return self.current  # Race catalog: one request reads the store, and no other waits for it
        async with self._checking:
            if self._due():
                await self._check()
        return self.current

    @property
    def is_known(self) -> bool:
        """Returns `True` if the store was read, or if there is no store. Before the first read, the packaged protocols
        are used, and no tenant's mode and allowed hosts are known.
        """
        return self._store is None or self.read_at is not None

    def state(self) -> dict[str, Any]:
        """Returns the source of the protocols and the errors in their values, for the health response."""
        if self._store is None:
            return {"source": "files"} | ({"problems": list(found)} if (found := self.current.problems) else {})
        problems = list(self.current.problems) + ([self.fault] if self.fault else [])
        read_at = self.read_at.isoformat().replace("+00:00", "Z") if self.read_at else None
        return {"source": "app-configuration", "read_at": read_at, "problems": problems}

    def _due(self) -> bool:
        if self._store is None and self._compared:
            return False
        return self._checked_at is None or self._clock.now() - self._checked_at >= self._every

    async def _check(self) -> None:
        before = self._loaded
        try:
            async with time_limit(_CHECK_S):
                if self._store is not None:
                    await self._read(self._store)
                # False until the check ends, so that a table without a response in time is read again
                self._compared = self._compared and self._loaded is before
                if not self._compared:
                    self._compared = await self._first_loaded.check(self._loaded.registry)
            self.fault = None
        except Transient as away:
            if self.fault is None:
                telemetry.warn("CONFIGURATION_UNAVAILABLE", reason=away)
            self.fault = str(away)
        registry, refused = self._first_loaded.in_effect(self._loaded.registry, self.current.registry)
        self.current = replace(self._loaded, registry=registry, problems=(*self._loaded.problems, *refused))
        self._checked_at = self._clock.now()

    async def _read(self, store: ConfigurationStore) -> None:
        version = await store.version()
        if self.read_at is not None and version is not None and version == self._version:
            return
        before, values = self._loaded, await store.read()
        # the earlier values are in effect, without the refused versions of the last read
        known = replace(before, registry=self.current.registry)
        self._loaded = apply_overrides(values, known, self._schemas, self._services)
        self._version, self.read_at = version, self._clock.now()
        if self._loaded.problems != before.problems:
            telemetry.warn("CONFIGURATION_READ", problems=self._loaded.problems)
