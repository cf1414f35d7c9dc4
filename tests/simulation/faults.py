"""The faults of a simulated world: drawn from its seed, up to an instant."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from tape.scheduler import Scheduler


@dataclass(frozen=True)
class Odds:
    """Probabilities, each for one port call, message or activity unless its comment names something else."""

    unavailable: float = 0.02
    answer_lost: float = 0.01
    crash: float = 0.002
    slow: float = 0.02
    very_slow: float = 0.003
    runs_twice: float = 0.03
    completion_lost: float = 0.03
    event_late: float = 0.1
    timer_late: float = 0.2
    episode_lost: float = 0.02
    #: for each directive that a service receives
    service_misbehaves: float = 0.35


NO_FAULTS = Odds(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)


@dataclass(frozen=True)
class CrashAt:
    """The whole host dies at the port call of this number, before or after it took effect."""

    call: int
    after: bool


@dataclass
class Faults:
    """Decides at every port call whether a fault occurs."""

    scheduler: Scheduler
    odds: Odds
    end_at: datetime
    crash_at: CrashAt | None = None

    @property
    def ended(self) -> bool:
        return self.scheduler.now >= self.end_at

    def occurs(self, odds: float) -> bool:
        return odds > 0 and not self.ended and self.scheduler.random.random() < odds

    def crashes(self, call: int, *, after: bool) -> bool:
        return self.crash_at == CrashAt(call, after) or self.occurs(self.odds.crash)

    def loses_episode(self) -> bool:
        return self.occurs(self.odds.episode_lost)

    def runs_twice(self) -> bool:
        return self.occurs(self.odds.runs_twice)

    def latency_s(self) -> float:
        if self.occurs(self.odds.very_slow):
            return self.scheduler.random.uniform(30, 400)
        if self.occurs(self.odds.slow):
            return self.scheduler.random.uniform(0.5, 40)
        return self.scheduler.random.uniform(0.001, 0.02)

    def event_latency_s(self) -> float:
        """Of an external event on its way to its orchestration."""
        if self.occurs(self.odds.event_late):
            return self.scheduler.random.choice((2.0, 45.0, 400.0)) * self.scheduler.random.random()
        return self.latency_s()

    def timer_lateness_s(self) -> float:
        """Returns the delay of a durable timer, up to half a minute; the engine itself fires it up to 1 s early."""
        return self.scheduler.random.uniform(0, 30) if self.occurs(self.odds.timer_late) else 0.01
