"""Filters of jobs and incidents: their parameters, and the test of a job or incident.

A field of a filter declares its parameter: name, kind of value, description. The query parameters of the routes, the
body of a bulk operation and the arguments of the client are made from the fields. A job matches a filter if it matches
every parameter that is given.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from enum import StrEnum
from typing import Any, TypeVar

from shared.contracts.instants import FIRST, LAST
from shared.core.incidents import Incident, IncidentKind, IncidentState
from shared.core.jobs.states import JobStatus
from shared.errors import excerpt, json_type
from shared.refusals import FilterInvalid


@dataclass(frozen=True)
class ParameterKind:
    """A kind of value: its parser, which raises FilterInvalid, and its JSON Schemas."""

    parse: Callable[[str, Any], Any]
    #: JSON Schema as a query parameter
    schema: Mapping[str, Any]
    #: JSON Schema as a member of a JSON object, with its description. Default: `schema`
    in_json: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class FilterParameter:
    """A parameter of a filter, and the field that holds its parsed value."""

    name: str
    field: str
    kind: ParameterKind
    description: str


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise FilterInvalid(name, f"must be a string, not {json_type(value)}")
    return value


def parse_instant(name: str, value: Any) -> datetime:
    """Parses an ISO 8601 timestamp with a time zone. A timestamp outside of `FIRST` to `LAST` becomes the nearer bound.
    Raises FilterInvalid for any other value.
    """
    try:
        # an unescaped + in a query is a space
        instant = datetime.fromisoformat(_text(name, value).strip().replace(" ", "+"))
    except ValueError:
        instant = None
    if instant is None or instant.tzinfo is None:
        raise FilterInvalid(name, f"must be a timestamp with a time zone (2026-01-27T10:00:00Z), not {excerpt(value)}")
    # every row has a time between these two
    return min(max(instant, FIRST), LAST)


def parse_label(name: str, value: Any) -> tuple[str, str]:
    """Parses a label `key:value`. Raises FilterInvalid for any other value."""
    key, colon, expected = _text(name, value).partition(":")
    if not key or not colon:
        raise FilterInvalid(name, f"must be key:value, not {excerpt(value)}")
    return key, expected


def _some_of(names: type[StrEnum], plural: str) -> ParameterKind:
    """Returns the kind of a parameter with one or more of the names. A JSON object can also have the names as a list.

    `plural` is the word for the names in descriptions.
    """

    def parse(name: str, value: Any) -> frozenset[StrEnum]:
        given = value.split(",") if isinstance(value, str) else value
        try:
            if not given or not isinstance(given, list):
                raise ValueError
            return frozenset(names(_text(name, each).strip().upper()) for each in given)
        except ValueError:
            raise FilterInvalid(
                name, f"must be one or more of {', '.join(names)}, separated by commas, not {excerpt(value)}"
            ) from None

    a_list = {"type": "array", "minItems": 1, "items": {"enum": [str(each) for each in names]}}
    one = "|".join(names)
    in_json = {
        "anyOf": [a_list, {"type": "string", "pattern": f"^({one})(,({one}))*$"}],
        "description": f"One or more {plural}, as a list or separated by commas.",
    }
    return ParameterKind(parse, a_list, in_json)


#: accepts any text; the other kinds refuse some
TEXT = ParameterKind(_text, {"type": "string"})
_INSTANT = ParameterKind(parse_instant, {"type": "string", "format": "date-time"})
_LABEL = ParameterKind(parse_label, {"type": "string", "pattern": r"^[^:]+:"})


def _flag(name: str, value: Any) -> bool:
    given = value if isinstance(value, bool) else {"true": True, "false": False}.get(_text(name, value))
    if given is None:
        raise FilterInvalid(name, f"must be true or false, not {excerpt(value)}")
    return given


_FLAG = ParameterKind(_flag, {"type": "boolean"}, {"anyOf": [{"type": "boolean"}, {"enum": ["true", "false"]}]})


def _parameter(kind: ParameterKind, description: str = "", *, name: str | None = None) -> Any:
    """Makes a field of a filter. `name` is the name of its parameter. Default: the name of the field."""
    return field(default=None, metadata={"kind": kind, "description": description, "name": name})


_LIVING = frozenset(status for status in JobStatus if not status.terminal)


@dataclass(frozen=True, kw_only=True)
class JobFilter:
    """A filter of jobs. A field that is None matches every job.

    `archived` True matches archived jobs only. Any other value matches unarchived jobs only.
    """

    tenant_id: str | None = _parameter(
        TEXT, "Tenant to list. Default: the caller's tenant; for all-tenants callers, all tenants."
    )
    statuses: frozenset[JobStatus] | None = _parameter(
        _some_of(JobStatus, "states"), "One or more states, separated by commas.", name="status"
    )
    request_type: str | None = _parameter(TEXT)
    since: datetime | None = _parameter(_INSTANT, "Jobs created at or after this timestamp.")
    until: datetime | None = _parameter(_INSTANT, "Jobs created before this timestamp.")
    #: label key and value
    label: tuple[str, str] | None = _parameter(_LABEL, "`key:value`. Jobs whose label `key` is exactly `value`.")

    idempotency_key: str | None = _parameter(
        TEXT, "Only the job of this idempotency key. An expired key can belong to a later job, or to no job."
    )
    correlation_id: str | None = _parameter(TEXT, "Jobs with this correlation id.")
    archived: bool | None = _parameter(
        _FLAG,
        "`true`: only archived jobs. Cannot be combined with `idempotency_key` or `correlation_id`. Default: only jobs "
        "that are not archived.",
    )

    def __post_init__(self) -> None:
        if self.archived and self.is_keyed:
            raise FilterInvalid(
                "archived", "cannot be combined with idempotency_key or correlation_id; omit one of them"
            )

    @property
    def matches_every_row(self) -> bool:
        """Returns `True` if the keys of the rows are enough to apply the whole filter."""
        return has_only(self, "tenant_id", "since", "until", "idempotency_key", "correlation_id", "archived")

    @property
    def is_keyed(self) -> bool:
        """Returns `True` if the filter names an idempotency key or a correlation id."""
        return self.idempotency_key is not None or self.correlation_id is not None

    @property
    def needs_ledger(self) -> bool:
        """Returns `True` if the ledger must be read, since the list of jobs can show an older state than the ledger."""
        return self.statuses is not None and bool(self.statuses & _LIVING)

    def has_status(self, status: JobStatus) -> bool:
        return self.statuses is None or status in self.statuses

    def may_match(self, status: JobStatus, request_type: str, labels: Mapping[str, str]) -> bool:
        """Returns `True` if a row of a list may match.

        If the filter `needs_ledger`, a row with any state that is not terminal may match.
        """
        return (
            (self.has_status(status) or (self.needs_ledger and status in _LIVING))
            and (self.request_type is None or request_type == self.request_type)
            and (self.label is None or labels.get(self.label[0]) == self.label[1])
        )

    def has_time(self, created_at: datetime) -> bool:
        """Returns `True` if a creation time is at or after `since` and before `until`."""
        return (self.since is None or created_at >= self.since) and (self.until is None or created_at < self.until)


@dataclass(frozen=True, kw_only=True)
class IncidentFilter:
    """A filter of incidents. A field that is None matches every incident."""

    tenant_id: str | None = _parameter(
        TEXT,
        "Tenant to list. Default: the caller's tenant; for all-tenants callers, all tenants, and incidents that "
        "belong to no tenant.",
    )
    states: frozenset[IncidentState] | None = _parameter(
        _some_of(IncidentState, "states"), "One or more states, separated by commas.", name="state"
    )
    kinds: frozenset[IncidentKind] | None = _parameter(
        _some_of(IncidentKind, "kinds"), "One or more kinds, separated by commas.", name="kind"
    )
    request_type: str | None = _parameter(TEXT)
    since: datetime | None = _parameter(_INSTANT, "Incidents opened at or after this timestamp.")
    until: datetime | None = _parameter(_INSTANT, "Incidents opened before this timestamp.")

    def matches(self, incident: Incident) -> bool:
        """Returns `True` if the incident matches. The query that read the incident has already applied the tenant and
        the times.
        """
        return (
            (self.states is None or incident.state in self.states)
            and (self.kinds is None or incident.kind in self.kinds)
            and (self.request_type is None or incident.request_type == self.request_type)
        )


Filter = TypeVar("Filter", JobFilter, IncidentFilter)


def has_only(given: JobFilter | IncidentFilter, *names: str) -> bool:
    """Returns `True` if the filter has no value in fields other than `names`."""
    return all(getattr(given, each.name) is None for each in fields(given) if each.name not in names)


def parameters_of(filter_: type[JobFilter] | type[IncidentFilter]) -> tuple[FilterParameter, ...]:
    """Returns the parameters of a filter, in the order of its fields."""
    return tuple(
        FilterParameter(
            each.metadata["name"] or each.name, each.name, each.metadata["kind"], each.metadata["description"]
        )
        for each in fields(filter_)
    )


def parse_filter(filter_: type[Filter], given: Mapping[str, Any]) -> Filter:
    """Returns the filter of the given parameters. Raises FilterInvalid for an unknown parameter or an invalid value."""
    known = {each.name: each for each in parameters_of(filter_)}
    parsed: dict[str, Any] = {}
    for name, value in given.items():
        if name not in known:
            raise FilterInvalid(name, f"is not a filter parameter; use {', '.join(known)}")
        parsed[known[name].field] = known[name].kind.parse(name, value)
    return filter_(**parsed)
