"""Comparisons of the emulators, and their differences, as tables for docs/contributing/emulators/compared.md.

The data is `tests/comparisons.json`, next to the tests that the data names.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from scripts.generate.tables import markdown_table

FILE = Path(__file__).resolve().parents[2] / "tests" / "comparisons.json"


class State(StrEnum):
    """State of a difference between an emulator and Azure."""

    #: repaired: the behaviour is now Azure's; `test` shows it
    REPAIRED = "repaired"
    #: `why` has the reason
    STAYS = "stays"
    #: Azure's behaviour is not known; `why` has the way to find it
    NOT_KNOWN = "not known"


@dataclass(frozen=True)
class Judge:
    """A source that an emulator was compared with, once."""

    subject: str
    judge: str
    date: str
    #: the commit of this repository
    commit: str
    checks: str
    agreed: str


@dataclass(frozen=True)
class Difference:
    """One behaviour in which an emulator differed from Azure."""

    subject: str
    what: str
    azure: str
    state: State
    #: `path::function` of the test of a repaired difference
    test: str = ""
    why: str = ""


def read() -> tuple[list[Judge], list[Difference]]:
    """Returns the data. Raises KeyError, TypeError or ValueError if a field is missing or unknown, or if a state is
    unknown.
    """
    data: dict[str, list[dict[str, Any]]] = json.loads(FILE.read_text(encoding="utf-8"))
    judges = [Judge(**each) for each in data["judges"]]
    return judges, [Difference(**{**each, "state": State(each["state"])}) for each in data["differences"]]


def judges() -> str:
    rows = ((one.subject, one.judge, f"{one.date}, {one.commit}", one.checks) for one in read()[0])
    return markdown_table(("part", "compared with", "date, commit", "checks"), rows)


def staying() -> str:
    rows = ((one.subject, one.what, one.azure) for one in _in(State.STAYS))
    return markdown_table(("part", "subject", "behavior in Azure"), rows)


def not_known() -> str:
    rows = ((one.subject, one.what, one.why) for one in _in(State.NOT_KNOWN))
    return markdown_table(("part", "subject", "known facts, and way to find out"), rows)


def _in(state: State) -> Iterable[Difference]:
    return (one for one in read()[1] if one.state is state)


#: parts that `scripts.generate` writes
PARTS = {"compared": judges, "staying": staying, "not-known": not_known}
