"""Plans of simulated worlds: by seed, and of single jobs whose host crashes at a given call."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from shared.core.jobs.occurrences import ControlKind
from tests.simulation import protocols
from tests.simulation.faults import NO_FAULTS, CrashAt, Odds


@dataclass(frozen=True)
class Plan:
    """The actions of callers in this world, and its faults."""

    jobs: int = 2
    posters: int = 1
    #: of every job, at random times
    controls: int = 0
    #: controls of every job, by seconds after its POST. Its callers repeat a failed request within a second: two
    #: seconds after a crash the control is in, and the next step takes three
    script: tuple[tuple[float, ControlKind], ...] = ()
    #: faults end then
    faults_end_after: timedelta = timedelta(hours=1)
    odds: Odds = field(default_factory=Odds)
    crash_at: CrashAt | None = None
    request_types: tuple[str, ...] = ("OCR_EMBEDDING_SIS",)
    #: seconds after its POST at which every job is redriven
    redriven_after_s: float | None = None
    #: jobs are redriven, amid the faults too
    redrives: bool = False
    #: the tenant's limit of active jobs; None: no limit
    tenant_limit: int | None = None
    #: the limit over all of them
    platform_limit: int | None = None
    #: jobs wait for the one before them
    dependent: bool = False
    #: effect of a limit on a request over it: `reject`, or `stage`
    overflow: str = "reject"
    #: ended jobs are archived after this, and their claims end with it; None: kept
    retention: timedelta | None = None
    #: time after which messages of a dead host are visible again; the default is Azure's
    visibility_timeout: timedelta = timedelta(minutes=5)
    #: the services have one worker in all, which works so long on each directive; None: any number
    one_worker_s: float | None = None
    #: second from which the engine does nothing, and the duration
    engine_away: tuple[float, float] | None = None
    #: `True` if every event checks that each job has an owner, which is too slow for large worlds
    owners_checked: bool = True
    #: how often a delivery fails before the bus dead-letters the message
    max_deliveries: int = 10
    #: public events are written to feeds
    events: bool = False
    #: and from there to webhooks
    hooks: bool = False
    #: operators change gates that no job passes
    gates: bool = False


#: a few faults, and many
MODERATE = Plan(jobs=2, posters=2, controls=2, request_types=protocols.REQUEST_TYPES)
HOSTILE = Plan(
    jobs=2,
    posters=3,
    controls=4,
    request_types=protocols.REQUEST_TYPES,
    max_deliveries=3,
    redrives=True,
    tenant_limit=1,
    faults_end_after=timedelta(hours=3),
    odds=Odds(unavailable=0.1, answer_lost=0.06, crash=0.01, slow=0.1, very_slow=0.02, service_misbehaves=0.7),
)


#: the same, with ended jobs archived after two hours
ARCHIVING = replace(HOSTILE, retention=timedelta(hours=2))


def plan_of(seed: int) -> Plan:
    """Returns the plan of a seed.

    Every fourth world is hostile, and every second of these archives. In every eighth, jobs wait, by a limit of their
    tenant or by one over all tenants. In every fifth, public events are written to feeds, those of quotas too, and in
    every second of these to webhooks.
    """
    return replace(_plan_of(seed), events=seed % 5 == 4, gates=seed % 5 == 4, hooks=seed % 10 == 4)


def _plan_of(seed: int) -> Plan:
    if seed % 8 in (1, 3) and seed % 16 != 3:
        plan = HOSTILE if seed % 8 == 3 else MODERATE
        # in every second of them a job waits for the one before it, too
        limit = "platform_limit" if seed // 16 % 4 >= 2 else "tenant_limit"
        staging: dict[str, Any] = {"overflow": "stage", "dependent": seed % 16 >= 8, limit: 1 + seed // 16 % 2}
        return replace(plan, jobs=5, **staging)
    if seed % 4 != 3:
        return MODERATE
    return ARCHIVING if seed % 8 == 7 else HOSTILE


PAUSE, RESUME, CANCEL = ControlKind.PAUSE, ControlKind.RESUME, ControlKind.CANCEL


@dataclass(frozen=True)
class Life:
    """One job, its controls with their times, and the status in which it must end."""

    request_type: str
    script: tuple[tuple[float, ControlKind], ...]
    ends: str
    redriven_after_s: float | None = None
    retention: timedelta | None = None
    events: bool = False

    @property
    def plan(self) -> Plan:
        return Plan(
            jobs=1,
            odds=NO_FAULTS,
            faults_end_after=timedelta(0),
            request_types=(self.request_type,),
            script=self.script,
            redriven_after_s=self.redriven_after_s,
            retention=self.retention,
            events=self.events,
            # so that only the crash costs time, not the wait for the work of the dead host
            visibility_timeout=timedelta(seconds=1),
        )


LIVES = {
    "undisturbed": Life(protocols.SEQUENCE, (), "SUCCEEDED"),
    "side by side": Life(protocols.GROUP, (), "SUCCEEDED"),
    "paused and resumed": Life(protocols.SEQUENCE, ((4, PAUSE), (100, RESUME)), "SUCCEEDED"),
    "paused and cancelled": Life(protocols.SEQUENCE, ((4, PAUSE), (100, CANCEL)), "CANCELLED"),
    "cancelled": Life(protocols.SEQUENCE, ((4, CANCEL),), "CANCELLED"),
    "cancelled and redriven": Life(protocols.SEQUENCE, ((4, CANCEL),), "SUCCEEDED", redriven_after_s=400),
    "archived": Life(protocols.SEQUENCE, (), "ARCHIVED", retention=timedelta(hours=2)),
    "one step, in the feed": Life(protocols.ONE_STEP, (), "SUCCEEDED", events=True),
    "a group paused": Life(protocols.GROUP, ((61, PAUSE), (200, RESUME)), "SUCCEEDED"),
}
