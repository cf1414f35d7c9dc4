"""Where an expression is not what is expected: unknown or missing properties, other kinds, values and limits.

The findings name the code that Microsoft's compiler has for the same: https://aka.ms/bicep/core-diagnostics.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from infra.checks.kinds import NULL, Alternative, Items, Kind, Place, Plain, Record, named

#: the code of a value that a property does not take, of an item of an array, and of a declaration
PROPERTY, ITEM, DECLARATION = "BCP036", "BCP034", "BCP033"
#: values that a finding lists
_MOST_SHOWN = 8


@dataclass(frozen=True)
class Difference:
    """What is wrong, and the compiler's code of it; "" where it takes that."""

    place: Place
    code: str
    text: str
    #: an object for a string, say: less near to fitting than anything else
    another_kind: bool = False


def differences(
    given: Kind, expected: Kind, place: Place, name: str, *, optional: bool = True, code: str = PROPERTY
) -> Iterator[Difference]:
    """Each alternative of `given` that no alternative of `expected` takes.

    `place`, `name` and `code` are of what holds it; `optional`: null stands for its absence.
    """
    if not expected:
        return
    for each in given:
        if each in NULL and (optional or each in expected):
            continue
        attempts = [list(_against(each, other, each.place or place, name, code)) for other in _merged(expected)]
        if all(attempts):
            yield from min(attempts, key=lambda found: (any(one.another_kind for one in found), len(found)))


def record_differences(given: Record, expected: Record, place: Place, name: str) -> Iterator[Difference]:
    """As differences, of one object; `name` is "" for that of a declaration itself."""
    case = _case(given, expected)
    if isinstance(case, Difference):
        yield case
        return
    if case is None:
        return
    known = {**expected.properties, **case.properties}
    for each, kind in given.properties.items():
        at, path = given.places.get(each, place), f"{name}.{each}".lstrip(".")
        if each in known:
            yield from differences(kind, known[each], at, path, optional=each not in expected.required | case.required)
        elif each in expected.read_only | case.read_only:
            yield Difference(at, "BCP073", f"{path} can be read, not set")
        elif expected.others is not None:
            yield from differences(kind, expected.others, at, path)
        elif case.others is not None:
            yield from differences(kind, case.others, at, path)
        else:
            near = _near(each, known)
            yield Difference(at, "BCP089" if near else "BCP037", f"{path} is not known{near}")
    if given.partial:
        return
    for each in sorted((expected.required | case.required) - given.properties.keys()):
        text = f"{name} needs {each}, which is missing".lstrip()
        yield Difference(given.place or place, "BCP035", text)


def _against(given: Alternative, expected: Alternative, place: Place, name: str, code: str) -> Iterator[Difference]:
    if isinstance(given, Record) and isinstance(expected, Record):
        yield from record_differences(given, expected, place, name)
    elif isinstance(given, Items) and isinstance(expected, Items):
        yield from differences(given.of, expected.of, place, f"{name}[]", optional=False, code=ITEM)
    elif isinstance(given, Plain) and isinstance(expected, Plain) and given.name == expected.name:
        yield from _plain(given, expected, place, name, code)
    else:
        yield Difference(place, code, f"{name} is {named(given)}, not {named(expected)}", another_kind=True)


def _plain(given: Plain, expected: Plain, place: Place, name: str, code: str) -> Iterator[Difference]:
    if given.values is not None and expected.values is not None:
        for value in sorted(given.values - expected.values, key=str):
            text = f"{name} is {value}, {_none_of(value, expected.values)}"
            yield Difference(place, "" if expected.loose else code, text)
        return
    number = given.name == "integer"
    unit, least_code, most_code = ("value", "BCP329", "BCP330") if number else ("length", "BCP334", "BCP335")
    if expected.least is not None and given.least is not None and given.least < expected.least:
        text = f"{name} can be {given.least}, below its least {unit} {expected.least}"
        yield Difference(place, least_code, text)
    if expected.most is not None and given.most is not None and given.most > expected.most:
        yield Difference(place, most_code, f"{name} can be {given.most}, above its most {unit} {expected.most}")
    if expected.pattern is not None and given.values is not None:
        for value in sorted(map(str, given.values)):
            if re.search(expected.pattern, value) is None:
                yield Difference(place, code, f"{name} is {value}, which {expected.pattern} does not match")


def _merged(expected: Kind) -> list[Alternative]:
    """Without null; literals of one kind are one list of values."""
    literals: dict[str, Plain] = {}
    found: list[Alternative] = []
    for each in expected:
        if isinstance(each, Plain) and each.values is not None:
            held = literals.get(each.name, each)
            values = each.values | (held.values or frozenset())
            literals[each.name] = Plain(each.name, values, loose=each.loose or held.loose)
        elif each not in NULL:
            found.append(each)
    return found + list(literals.values())


def _case(given: Record, expected: Record) -> Record | Difference | None:
    """What the discriminator's value adds to the expected object; None: the value is not known."""
    name = expected.discriminator
    if name is None:
        return Record({})
    if name not in given.properties:
        if given.partial or given.place is None:
            return None
        return Difference(given.place, "BCP078", f"needs {name}, one of {', '.join(sorted(expected.cases))}")
    kind = given.properties[name]
    values = kind[0].values if len(kind) == 1 and isinstance(kind[0], Plain) else None
    if values is None or len(values) != 1:
        return None
    value = str(next(iter(values)))
    if value not in expected.cases:
        place = given.places.get(name) or given.place
        text = f"{name} is {value}, {_none_of(value, expected.cases)}"
        return None if place is None else Difference(place, PROPERTY, text)
    case = expected.cases[value]
    return Record({**case.properties, name: kind}, case.required, case.read_only, case.others)


def _none_of(value: object, known: Iterable[object]) -> str:
    names = sorted(map(str, known))
    shown = ", ".join(names[:_MOST_SHOWN]) + (", ..." if len(names) > _MOST_SHOWN else "")
    return f"none of {shown}{_near(value, names)}"


def _near(value: object, known: Iterable[object]) -> str:
    near = difflib.get_close_matches(str(value), list(map(str, known)), n=1, cutoff=0.8)
    return f": {near[0]}?" if near else ""
