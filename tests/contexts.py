"""Contexts of operations that differ in a few values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from datetime import datetime
from typing import Any

from shared.core.events.hints import Hint
from shared.operations.process.context import Context
from shared.operations.process.hinting import Hinting
from shared.operations.process.parts import Bus, Events, Process, Webhooks

_PARTS = {"bus": Bus, "events": Events, "webhooks": Webhooks, "process": Process}


class _NoHints:
    """See `shared.ports.feed.HintQueue`. Drops each hint."""

    async def send(self, hints: Sequence[Hint], *, at: datetime | None = None) -> None:
        return None


def changed(context: Context, **values: Any) -> Context:
    """Returns the context with other values, each in the part that has a field of that name.

    A `feed` in a context without events brings its own webhooks, and discards hints.
    """
    for name, part in _PARTS.items():
        own = {each.name: values.pop(each.name) for each in fields(part) if each.name in values}
        before = getattr(context, name)
        if own and before is None and part is Events:
            given = {"hooks": getattr(own["feed"], "hooks", None), "hinting": Hinting(_NoHints(), context.clock)}
            values[name] = Events(**{**given, **own})
        elif own:
            values[name] = replace(before, **own) if before is not None else part(**own)
    return replace(context, **values)
