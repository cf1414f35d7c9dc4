"""Each type of row that is no job's own is at fault, one at a time, while jobs of three tenants run.

About 130 worlds of ten jobs each, 0.1 to 0.3 CPU seconds a world; 30 more with `long`.
"""

from __future__ import annotations

from collections import Counter
from functools import cache

import pytest

from shared.core.incidents import IncidentKind
from tests.isolation.faults import Kind
from tests.isolation.matrix import CELLS, CORE, LINES, UNMET
from tests.isolation.row_types import promised_types
from tests.isolation.world import BULK, DEPENDENCIES, EVENTS, PLATFORM, USAGE, VICTIM, Report, run


@cache
def healthy(has: tuple[str, ...]) -> Report:
    """The world without a fault."""
    return run(None, has=has)


def test_every_type_of_row_is_core_or_in_the_matrix() -> None:
    """A new type of row fails here until it has its record."""
    listed = [*CORE, *UNMET, *LINES]
    assert len(listed) == len({*listed})
    met = {each for has in _WORLDS for each in healthy(has).seen}
    assert promised_types() | met == {*listed}


_WORLDS: list[tuple[str, ...]] = [(), (DEPENDENCIES,), (BULK,), (EVENTS,), (PLATFORM,), (USAGE,)]


def test_every_request_of_a_row_has_its_cells() -> None:
    """The faults of each row are those that the world's requests can get."""
    found = {name: _kinds(healthy(line.has).seen[name]) for name, line in LINES.items()}
    assert found == {name: line.kinds for name, line in LINES.items()}
    assert not [name for name in UNMET if any(healthy(has).seen[name] for has in _WORLDS)]


def _kinds(verbs: set[str]) -> str:
    kinds = "mu" if "there" in verbs else ""
    kinds += "o" if {verb.rstrip("!") for verb in verbs} & {"create", "update", "upsert"} else ""
    kinds += "r" if verbs else ""
    return kinds + ("c" if any(verb.endswith("!") for verb in verbs) else "")


def test_the_world_without_a_fault() -> None:
    """Each job ends within the time of the faults, and nothing is left, raised or warned of."""
    for has in _WORLDS:
        report = healthy(has)
        assert all(second is not None and second < 160 for _, second in report.ends.values()), has
        assert (report.left, report.raised) == ([], [])
        assert {line["event"] for line in report.warnings} <= _AS_USUAL


_AS_USUAL = {"MESSAGE_REJECTED", "BREAKER_OPENED", "INCIDENT_OPENED", "LIMIT_REACHED"}


def _marks(cell: tuple[str, Kind]) -> list[pytest.MarkDecorator]:
    name, kind = cell
    # a row that is only written, and the rows of feeds and usage, have a refusal with the same effect as being
    # oversized
    is_alike = LINES[name].kinds == "or" or {EVENTS, USAGE} & {*LINES[name].has}
    return [pytest.mark.long] if is_alike and kind in (Kind.REFUSED, Kind.CONTENDED) else []


def _parameters() -> list[object]:
    return [
        pytest.param(
            *cell,
            id=f"{cell[0]} {cell[1]}".replace(" ", "-"),
            marks=_marks(cell),
        )
        for cell in CELLS
    ]


@pytest.mark.parametrize(("name", "kind"), _parameters())
def test_a_cell(name: str, kind: Kind) -> None:
    line = LINES[name]
    report = run(name, kind, line.has, ends_by=line.bound(kind))
    assert _wrong(report, name, kind) == []


def _wrong(report: Report, name: str, kind: Kind) -> list[str]:
    """Returns the promises that do not hold."""
    line = LINES[name]
    usual = healthy(line.has)
    found = [f"left: {row}" for row in report.left]
    found += sorted({f"raised: {each}" for each in report.raised})
    for (tenant, job), (status, second) in report.ends.items():
        if second is None:
            found.append(f"{tenant} {job} never ended: {status}")
        elif tenant == VICTIM or line.of_all:
            if second > line.bound(kind):
                found.append(f"{tenant} {job} ended at {second}: {status}")
        elif (status, second) != usual.ends[tenant, job]:
            found.append(f"{tenant} {job} ended {status} at {second}, and not {usual.ends[tenant, job]}")
    if not line.of_all:
        for tenant, counts in report.requests.items():
            if tenant != VICTIM and counts != usual.requests[tenant]:
                found.append(f"{tenant} made {counts} requests, and not {usual.requests[tenant]}")
    opened = Counter(each["subject"] for each in report.warnings if each.get("kind") == IncidentKind.ROW)
    found += [f"{count} incidents of {subject}" for subject, count in opened.items() if count > 1]
    if kind.value[0] in line.hidden:
        return found
    if not report.met:
        found.append("no request met the fault")
    elif kind in (Kind.UNDECODABLE, Kind.OVERSIZED, Kind.REFUSED) and kind.value[0] not in line.silent:
        reports = [*report.reported, *(str(each) for each in report.warnings if each["event"] not in _AS_USUAL)]
        if not reports:
            found.append("nothing is reported")
        elif kind is not Kind.REFUSED and not any(key in text for text in reports for key in report.keys):
            found.append(f"no report names the row: {reports[0]}")
    return found
