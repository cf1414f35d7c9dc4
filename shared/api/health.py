"""Whether the app lives, and whether it can work."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from shared.api.response import Instant, Response


class Build(Response):
    """Which build serves."""

    version: str
    commit: str | None
    """As it was written down when the app was packaged; null: it was not."""
    envelope: str
    """Versions of the envelope that it takes."""


class Live(Response):
    """This process answers."""

    status: Literal["live"]
    build: Build


class ProtocolSource(Response):
    """Where the protocols come from."""

    source: Literal["files", "app-configuration"]
    read_at: Instant | None = None
    """When the store was last read; null: never yet."""
    problems: list[str] | None = None
    """What is wrong there; the last good values stay in effect. Null for callers who do not see all tenants."""
    versions: dict[str, int]
    """The version that a new job gets, by request type."""


class DependencyState(Response):
    """One thing that the app needs, as this process sees it."""

    status: Literal["ok", "down"]
    since: Instant
    """Since when it is so."""
    reason: str | None = None
    """Why it is down."""


class WorkInProgress(Response):
    """What the sweeper counted in its last pass: the gauges, also where no metrics are exported."""

    active: dict[str, int]
    """Jobs that have not ended, by status; one without a job is left out."""
    queued_oldest_seconds: float
    """Age of the oldest QUEUED job since its POST; 0: none is QUEUED."""
    unacked: int
    """Attempts INITIATED and not yet ACKed."""
    unacked_oldest_seconds: float
    """Age of the oldest of them."""


class SweeperState(Response):
    """The last pass of the sweeper, wherever it ran; of several sweepers, that of the one that is behind."""

    last_pass_at: Instant | None
    """null: none yet."""
    looked_at: int | None
    actions: int | None
    more: bool | None
    """The pass ran out of time before all that was due was done."""
    late: bool
    """The last pass was over five minutes ago; jobs go on, but what is lost is not found."""
    work: WorkInProgress | None
    """Null: no sweep yet, or the caller does not see all tenants."""


class SettingNotRead(Response):
    """A setting of an earlier design of LUCIUS that is set here and changes nothing."""

    name: Annotated[str, Field(examples=["LUCIUS_JOBS_TABLE"])]
    instead: str
    """What replaces it."""


class Ready(Response):
    """What the app needs answers."""

    status: Literal["ready"]
    ledger: Literal["tables", "memory"]
    auth: Literal["jwt", "none"]
    """`none`: no token is looked at, and every caller may do everything."""
    protocols: ProtocolSource
    build: Build
    dependencies: dict[str, DependencyState]
    """`tables`, `blob`, `servicebus`, `durable`."""
    sweeper: SweeperState
    settings_not_read: list[SettingNotRead]
    """Empty where nothing is set in vain."""
