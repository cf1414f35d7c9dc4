"""The cost of webhooks and callback URLs in requests, rows and messages, counted at the adapters (R84, R85)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from benchmarks.scale.events import DELIVERIES
from shared.adapters.tables.direct import DirectAccount, DirectTable
from shared.core.webhooks.webhooks import Answer
from shared.operations.webhooks.webhooks import remove_hook
from tests.operations.conftest import World, world
from tests.worlds.webhooks import TENANT, Hooked, hooked_on_tables

__all__ = ["world"]  # a fixture of the operations' tests

CALLBACK: dict[str, Any] = {"callback_urls": {"done": "https://a.example"}}
COUNTED = ("table_writes", "table_reads", "entities_written", "messages", "executions", "rows_kept")


class Costs:
    """Requests of the process between two reads."""

    def __init__(self, given: Hooked, patch: pytest.MonkeyPatch) -> None:
        self._given = given
        self._number = 1
        self.found = Counter[str]()
        send, submit, read, deliver = (
            *(DirectAccount.send, DirectTable.submit_transaction),
            *(given.world.ledger.read, given.queue.send),
        )

        async def sends(account: DirectAccount, method: str, path: str, *args: Any, **fields: Any) -> Any:
            self.found["table_reads" if method == "GET" else "table_writes"] += 1
            return await send(account, method, path, *args, **fields)

        async def submits(table: DirectTable, operations: Sequence[Any]) -> Any:
            self.found["entities_written"] += len(operations)
            kept = {"create": 1, "delete": -1}
            self.found["rows_kept"] += sum(kept.get(operation[0], 0) for operation in operations)
            return await submit(table, operations)

        async def reads(job_id: str) -> Any:
            # the ledger is in memory here
            self.found["table_reads"] += 1
            return await read(job_id)

        async def delivers(calls: Sequence[Any], **options: Any) -> None:
            self.found["messages"] += len(calls)
            await deliver(calls, **options)

        patch.setattr(DirectAccount, "send", sends)
        patch.setattr(DirectTable, "submit_transaction", submits)
        patch.setattr(given.world.ledger, "read", reads)
        patch.setattr(given.queue, "send", delivers)

    def taken(self) -> Counter[str]:
        found, self.found = self.found, Counter()
        return found

    async def finished(self, **changes: Any) -> Counter[str]:
        """One more job, from its POST into the feed."""
        self._number += 1
        self.found.clear()
        await self._given.finished(idempotency_key=f"{self._number}", **changes)
        return self.taken()

    async def tried(self) -> Counter[str]:
        """Tries the due deliveries; each message is an execution."""
        self.found.clear()
        calls = self._given.taken()
        self.found["executions"] += len(calls)
        await self._given.delivered(calls)
        return self.taken()


def each(found: Counter[str], number: int) -> dict[str, float]:
    return {name: found[name] / number for name in COUNTED}


def model(column: str) -> dict[str, float]:
    return {name: getattr(DELIVERIES[column], name) for name in COUNTED}


async def test_what_a_delivery_costs(azurite: str, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The numbers of docs/explanation/scale.md; a tenant without webhooks costs the same as before."""
    async with hooked_on_tables(azurite, world) as given:
        await given.finished()
        costs = Costs(given, monkeypatch)
        plain = await costs.finished()
        assert (plain["table_writes"], plain["messages"]) == (1, 0)

        hook = await given.hook(filter={"types": frozenset({"job.queued", "job.completed"})})
        # the webhook's first success of a minute is noted on it
        await costs.finished()
        await given.delivered()
        found = await costs.finished() - plain
        assert found["table_writes"] == 0
        assert each(found + await costs.tried(), 2) == model("for a webhook, at the first try")
        await given.healed()
        assert costs.taken() == {"table_reads": 3}

        await costs.finished()
        given.receiver.answer = Answer(status=500)
        # the row stays, and a later try ends it as the first one does
        assert each(await costs.tried(), 2) == model("added by each failed try")
        given.receiver.answer = Answer(status=200)
        given.queue.sent.clear()

        await remove_hook(given.world.context, TENANT, hook.id, "user:x")
        await costs.finished(**CALLBACK)
        await given.delivered()
        found = await costs.finished(**CALLBACK) - plain
        assert found["table_writes"] == 0
        assert each(found + await costs.tried(), 1) == model("for a callback URL, at the first try")
