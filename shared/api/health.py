"""Liveness and readiness of the app."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from shared.api.response import Instant, Response


class Build(Response):
    """Build that serves the request."""

    version: str
    commit: str | None
    """Commit recorded when the app was packaged. Null if the package has no commit."""
    envelope: str
    """Accepted versions of the job request."""


class Live(Response):
    """The process responds."""

    status: Literal["live"]
    build: Build


class ProtocolSource(Response):
    """Source of the protocols."""

    source: Literal["files", "app-configuration"]
    read_at: Instant | None = None
    """Time of the last read of the values in App Configuration, which LUCIUS reads again after a change. Null before
    the first read, and for `files`."""
    problems: list[str] | None = None
    """Errors in the protocols and modes of `source`, and the error of the last read if the read failed. The last valid
    values stay in effect. Null for callers who do not see all tenants, and for `files` without errors."""
    versions: dict[str, int]
    """Highest version without `ramp_percent`, by job type. New jobs outside of a ramp use this version."""


class DependencyState(Response):
    """State of a dependency of the app, from the view of this process."""

    status: Literal["ok", "down"]
    since: Instant
    """Time since which this process has found the same `status`."""
    reason: str | None = None
    """Cause, if `status` is `down`."""


class WorkInProgress(Response):
    """The sweeper's last complete count of jobs that have not ended, which takes one or several sweeps. The gauges have
    the same counts. Ages are as of the request."""

    active: dict[str, int]
    """Number of jobs that have not ended, by status. A status without jobs is absent."""
    queued_oldest_seconds: float
    """Seconds since the admission of the oldest QUEUED job. 0 if no job is QUEUED."""
    unacked: int
    """Number of attempts without an ACK (INITIATED)."""
    unacked_oldest_seconds: float
    """Age of the oldest attempt without an ACK, in seconds. 0 if every attempt has an ACK."""


class SweeperState(Response):
    """The last sweep in any process. If several sweepers share the tenants, the fields combine their last sweeps:
    numbers are sums, and `last_pass_at` is the earliest end.
    """

    last_pass_at: Instant | None
    """End of the last sweep. Null before the first sweep."""
    looked_at: int | None
    actions: int | None
    more: bool | None
    """`true` if the sweep left checks or clearings of jobs, admissions, or expired rejected messages to the next
    sweep."""
    late: bool
    """`true` if the last sweep was over five minutes ago. Jobs continue, but lost messages are not detected."""
    work: WorkInProgress | None
    """The sweeper's last complete count of jobs that have not ended. Null before the first sweep, or if the caller does
    not see all tenants."""


class SettingNotRead(Response):
    """Setting of an earlier version that is set and has no effect."""

    name: Annotated[str, Field(examples=["LUCIUS_JOBS_TABLE"])]
    instead: str
    """Setting that replaces this setting."""


class Ready(Response):
    """State of the app if all dependencies respond."""

    status: Literal["ready"]
    ledger: Literal["tables", "memory"]
    auth: Literal["jwt", "none"]
    """Authentication mode. `jwt`: LUCIUS checks tokens. `none`: LUCIUS checks no tokens, and every caller has full
    access."""
    protocols: ProtocolSource
    build: Build
    dependencies: dict[str, DependencyState]
    """State of the dependencies `tables`, `blob`, `servicebus` and `durable`."""
    sweeper: SweeperState
    settings_not_read: list[SettingNotRead]
    """Settings of earlier versions that are set and have no effect. Misspelled settings are not listed."""
