"""Each row of the transition tables, taken out or pointed elsewhere, one at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, cast

from shared.core.jobs.states import JobStatus, StepStatus
from shared.core.jobs.transitions import JOB_TABLE, STEP_TABLE, TargetState

_TABLES: tuple[tuple[str, Any, type[StrEnum]], ...] = (("job", JOB_TABLE, JobStatus), ("step", STEP_TABLE, StepStatus))


#: of a row: (machine, state, event)
Place = tuple[str, Any, Any]


@dataclass(frozen=True)
class Mutant:
    """One row, and its mutation; `to` None: it is removed."""

    machine: str
    state: StrEnum
    event: StrEnum
    to: str | None

    @property
    def place(self) -> Place:
        return self.machine, self.state, self.event

    def __str__(self) -> str:
        return f"{self.machine} {self.state} on {self.event}: {self.to or 'no row'}"

    @contextmanager
    def alive(self) -> Iterator[None]:
        """The product's own table is changed in place, and put back."""
        table = JOB_TABLE if self.machine == "job" else STEP_TABLE
        rows = cast("dict[StrEnum, TargetState]", table[self.state])  # type: ignore[index]  # the machine's own states
        kept = dict(rows)
        try:
            if self.to is None:
                del rows[self.event]
            else:
                rows[self.event] = TargetState(self.to, "mutated")
            yield
        finally:
            rows.clear()
            rows.update(kept)


class _Watched(dict[Any, TargetState]):
    """The rows of a state; reports each lookup."""

    def __init__(
        self, rows: Mapping[Any, TargetState], machine: str, state: StrEnum, looked: Callable[[Place], None]
    ) -> None:
        super().__init__(rows)
        self._notify = lambda event: looked((machine, state, event))

    def get(self, event: Any, default: Any = None) -> Any:
        self._notify(event)
        return super().get(event, default)

    def __getitem__(self, event: Any) -> TargetState:
        self._notify(event)
        return super().__getitem__(event)

    def __contains__(self, event: object) -> bool:
        self._notify(event)
        return super().__contains__(event)


@contextmanager
def watched(looked: Callable[[Place], None]) -> Iterator[None]:
    """Calls `looked` for every row that the product reads, present or not."""
    kept = [(table, dict(table)) for _, table, _ in _TABLES]
    try:
        for machine, table, _ in _TABLES:
            for state in table:
                table[state] = _Watched(table[state], machine, state, looked)
        yield
    finally:
        for table, rows in kept:
            table.update(rows)


def mutants() -> Iterator[Mutant]:
    for machine, table, states in _TABLES:
        for state, rows in table.items():
            for event, row in rows.items():
                yield Mutant(machine, state, event, None)
                for other in states:
                    if other != row.to:
                        yield Mutant(machine, state, event, other.value)
