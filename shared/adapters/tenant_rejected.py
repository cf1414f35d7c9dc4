"""The rejected messages that name one tenant; those that name none are for operators of all tenants."""

from __future__ import annotations

from datetime import datetime

from shared.access.caller import Caller
from shared.ports.rejected import RejectedMessage, RejectedMessages, tenant_named_in

_PAGE = 200


class TenantRejected:
    """See `shared.ports.rejected.RejectedMessages`."""

    def __init__(self, rejected: RejectedMessages, caller: Caller) -> None:
        self._rejected = rejected
        self._caller = caller

    async def quarantine(self, message: RejectedMessage) -> None:
        await self._rejected.quarantine(message)

    async def read(self, id_: str) -> RejectedMessage | None:
        message = await self._rejected.read(id_)
        return message if message is not None and self._sees(message) else None

    async def list_day(self, day: str, *, after: str | None, limit: int) -> list[RejectedMessage]:
        kept: list[RejectedMessage] = []
        while True:
            found = await self._rejected.list_day(day, after=after, limit=_PAGE)
            kept += filter(self._sees, found)
            if len(found) < _PAGE or len(kept) >= limit:
                return kept[:limit]
            after = found[-1].id

    async def mark(self, id_: str, *, redriven_at: datetime, outcome: str) -> None:
        await self._rejected.mark(id_, redriven_at=redriven_at, outcome=outcome)

    def _sees(self, message: RejectedMessage) -> bool:
        tenant_id = tenant_named_in(message.body)
        return tenant_id is not None and self._caller.may_see(tenant_id)
