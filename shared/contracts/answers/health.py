"""Whether the app lives and can work."""

from __future__ import annotations

from typing import Literal

from shared.contracts.answers.answer import Answer, Instant


class Live(Answer):
    """This process answers."""

    status: Literal["live"]


class ProtocolSource(Answer):
    """Where the protocols come from."""

    source: Literal["files", "app-configuration"]
    read_at: Instant | None = None
    """When the store was last read; null: never yet."""
    problems: list[str] | None = None
    """What is wrong there; what was good before still rules."""


class Ready(Answer):
    """What the app needs answers."""

    status: Literal["ready"]
    ledger: Literal["tables", "memory"]
    protocols: ProtocolSource
