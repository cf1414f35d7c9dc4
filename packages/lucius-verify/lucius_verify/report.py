"""The verdict: the state of each level, and the first broken link of each broken level."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Any

from lucius_verify.faults import Fault, visible


class Verdict(IntEnum):
    """The verdict of a verification, which is also the exit code."""

    VERIFIED = 0
    #: a link is broken, or the file cannot be read
    BROKEN = 2
    #: no link is broken, but a key that the user has not named signed the bundle, or the user named a key and nothing
    #: is signed
    UNKNOWN_KEY = 3


class State(StrEnum):
    HOLDS = "holds"
    BROKEN = "broken"
    NOT_CHECKED = "not checked"


NAMES = {1: "bytes", 2: "chain", 3: "possible", 4: "complete"}


@dataclass
class Level:
    """The state of one of the four levels, with the first broken link."""

    number: int
    state: State = State.NOT_CHECKED
    #: summary of the checks, or the reason why there were none
    detail: str = ""
    #: the first broken link
    fault: Fault | None = None

    def broken(self, fault: Fault | None) -> None:
        """Marks the level as broken at `fault`. Changes nothing if the level is already broken or `fault` is None."""
        if fault is not None and self.fault is None:
            self.state, self.fault = State.BROKEN, fault

    def settle(self, detail: str) -> None:
        """Sets the summary of the checks. Sets the state to HOLDS if the level is not broken."""
        self.detail = detail
        if self.fault is None:
            self.state = State.HOLDS


@dataclass
class Report:
    """The result of a verification."""

    #: tenant and window of the bundle: `acme, 2026-11-01 to 2026-12-01`
    subject: str = ""
    levels: dict[int, Level] = field(default_factory=lambda: {number: Level(number) for number in NAMES})
    jobs: int = 0
    events: int = 0
    #: ids of keys with valid signatures, and those of them that the user did not name
    signed_by: list[str] = field(default_factory=list)
    unnamed: list[str] = field(default_factory=list)
    #: `True` if the user named keys, and nothing is signed
    unsigned: bool = False
    #: facts that a reader must know and that are not faults
    notes: list[str] = field(default_factory=list)

    @property
    def broken(self) -> Fault | None:
        """Returns the first broken link of the lowest broken level, or None if no level is broken."""
        return next((level.fault for level in self.levels.values() if level.fault is not None), None)

    @property
    def verdict(self) -> Verdict:
        if self.broken is not None:
            return Verdict.BROKEN
        return Verdict.UNKNOWN_KEY if self.unnamed or self.unsigned else Verdict.VERIFIED

    def to_json(self) -> dict[str, Any]:
        """Returns the report as JSON."""
        return {
            "verdict": self.verdict.name.lower(),
            "subject": visible(self.subject),
            "jobs": self.jobs,
            "events": self.events,
            "levels": [
                {"level": each.number, "name": NAMES[each.number], "state": each.state.value, "detail": each.detail}
                | ({"broken": _place(each.fault)} if each.fault is not None else {})
                for each in self.levels.values()
            ],
            "signed_by": self.signed_by,
            "unnamed_keys": self.unnamed,
            "notes": self.notes,
        }

    def to_text(self) -> str:
        """Returns the report as text: a line for each level, the notes, and the verdict."""
        lines = [
            f"{each.number} {NAMES[each.number]:<9} {each.state.value:<12} {visible(str(each.fault or each.detail))}"
            for each in self.levels.values()
        ]
        lines += [f"note: {visible(note)}" for note in self.notes]
        return "\n".join([*lines, f"{self._summary()}: {visible(self.subject)}"])

    def _summary(self) -> str:
        match self.verdict:
            case Verdict.BROKEN:
                return "broken"
            case Verdict.UNKNOWN_KEY if self.unsigned:
                return "not signed by a key that you named"
            case Verdict.UNKNOWN_KEY:
                return f"signed by a key that you have not named, {self.unnamed[0]}"
            case Verdict.VERIFIED:
                held = [str(each.number) for each in self.levels.values() if each.state is State.HOLDS]
                return f"verified at level{'s' * (len(held) > 1)} {', '.join(held)}"


def _place(fault: Fault) -> dict[str, Any]:
    found = {"why": fault.why, "file": fault.file, "row": fault.row, "job_id": fault.job_id, "seq": fault.seq}
    shown = {name: visible(value) if isinstance(value, str) else value for name, value in found.items()}
    return {name: value for name, value in shown.items() if value is not None}
