"""What the logs of gates and incidents mean to the world, read where a hint does not say it (R78)."""

from __future__ import annotations

from collections.abc import Sequence

from shared.core.chained_log import Entry
from shared.core.hints import Hint
from shared.core.public_events import PublicEvent
from shared.core.public_log_events import feed_of, gate_events, incident_events
from shared.operations.context import Context
from shared.operations.incidents import find_incident


async def entries_after(context: Context, hint: Hint, seen: int, limit: int) -> list[tuple[int, Sequence[PublicEvent]]]:
    """The entries after number `seen` of the log that the hint names, at most `limit`, each with its public events.

    Those from before there was a feed mean nothing. Raises LedgerUnavailable.
    """
    rows = await _rows(context, hint, seen, limit)
    since = (await context.feed.identity()).since if context.feed is not None and rows else None
    return [(entry.seq, events if since is None or entry.at >= since else ()) for entry, events in rows]


async def _rows(context: Context, hint: Hint, seen: int, limit: int) -> list[tuple[Entry, tuple[PublicEvent, ...]]]:
    if (gate := hint.gate) is not None:
        changes = await context.desks.log(gate.tenant, gate.id, after=seen, limit=limit)
        return [(entry, gate_events(entry, gate)) for entry in changes]
    incident, _ = await find_incident(context, hint.incident_id)
    if incident is None or feed_of(incident.tenant) != hint.tenant:
        return []
    entries = await context.incidents.log(incident, after=seen, limit=limit)
    return [(entry, incident_events(entry, incident)) for entry in entries]
