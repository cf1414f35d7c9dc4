"""The one filter of jobs: of lists, dead letters and receipts, and of what is done to many jobs at once.

A filter is words with values, the same as query parameters, in a JSON object and in the command line:
`tenant_id, status, request_type, since, until, label`. A job matches when it matches every word. That of incidents has
`state` and `kind` in place of `status` and `label`; its times are those at which they were opened.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, TypeVar

from shared.contracts.instants import FIRST, LAST
from shared.core.incidents import Incident, IncidentKind, IncidentState
from shared.core.jobs.states import JobStatus
from shared.refusals import FilterInvalid

_Grammar = Mapping[str, tuple[str, Callable[[str, Any], Any]]]
_Names = TypeVar("_Names", bound=StrEnum)

_LIVING = frozenset(status for status in JobStatus if not status.terminal)


@dataclass(frozen=True, kw_only=True)
class JobFilter:
    """What is None does not matter."""

    #: None: every tenant's jobs
    tenant_id: str | None = None
    statuses: frozenset[JobStatus] | None = None
    request_type: str | None = None
    #: created at or after this instant
    since: datetime | None = None
    #: created before this instant
    until: datetime | None = None
    #: a label and its value
    label: tuple[str, str] | None = None

    @property
    def matches_every_row(self) -> bool:
        """Tenant and time, by which rows are found, are filter enough."""
        return self.statuses is None and self.request_type is None and self.label is None

    @property
    def needs_ledger(self) -> bool:
        """The list of jobs may not know yet in which of these states a living job is."""
        return self.statuses is not None and bool(self.statuses & _LIVING)

    def has_status(self, status: JobStatus) -> bool:
        return self.statuses is None or status in self.statuses

    def may_match(self, status: JobStatus, request_type: str, labels: Mapping[str, str]) -> bool:
        """As far as a row of a list shows; where the filter `needs_ledger`, a living job may be in another state."""
        return (
            (self.has_status(status) or (self.needs_ledger and status in _LIVING))
            and (self.request_type is None or request_type == self.request_type)
            and (self.label is None or labels.get(self.label[0]) == self.label[1])
        )

    def has_time(self, created_at: datetime) -> bool:
        """Whether a job that was created then is within `since` and `until`."""
        return (self.since is None or created_at >= self.since) and (self.until is None or created_at < self.until)


@dataclass(frozen=True, kw_only=True)
class IncidentFilter:
    """What is None does not matter."""

    #: None: every tenant's incidents, and those that are of none
    tenant_id: str | None = None
    states: frozenset[IncidentState] | None = None
    kinds: frozenset[IncidentKind] | None = None
    request_type: str | None = None
    #: opened at or after this instant
    since: datetime | None = None
    #: opened before this instant
    until: datetime | None = None

    def matches(self, incident: Incident) -> bool:
        """But for tenant and time, by which rows are found."""
        return (
            (self.states is None or incident.state in self.states)
            and (self.kinds is None or incident.kind in self.kinds)
            and (self.request_type is None or incident.request_type == self.request_type)
        )


def parse_filter(given: Mapping[str, Any]) -> JobFilter:
    """The filter of these words. Raises FilterInvalid, which names the word that is unknown or has a wrong value.

    `status` is one or more states, with commas between or as a list; `since` and `until` are RFC 3339 instants with
    their zone; `label` is `key:value`.
    """
    return JobFilter(**_parsed(given, _WORDS))


def parse_incident_filter(given: Mapping[str, Any]) -> IncidentFilter:
    """The filter of these words. Raises FilterInvalid, as `parse_filter` does.

    `state` and `kind` are one or more, with commas between or as a list.
    """
    return IncidentFilter(**_parsed(given, _INCIDENT_WORDS))


def _parsed(given: Mapping[str, Any], words: _Grammar) -> dict[str, Any]:
    parsed: dict[str, Any] = {}
    for word, value in given.items():
        if word not in words:
            raise FilterInvalid(word, f"is no word of a filter; these are {', '.join(words)}")
        member, parse = words[word]
        parsed[member] = parse(word, value)
    return parsed


def _text(word: str, value: Any) -> str:
    if not isinstance(value, str):
        raise FilterInvalid(word, f"{word} must be a text")
    return value


def _some_of(names: type[_Names]) -> Callable[[str, Any], frozenset[_Names]]:
    def parse(word: str, value: Any) -> frozenset[_Names]:
        given = value.split(",") if isinstance(value, str) else value
        try:
            if not given or not isinstance(given, list):
                raise ValueError
            return frozenset(names(_text(word, each).strip().upper()) for each in given)
        except ValueError:
            raise FilterInvalid(word, f"{word} is one or more of {', '.join(names)}, with commas between") from None

    return parse


def _instant(word: str, value: Any) -> datetime:
    try:
        # an unescaped + of a query is a space
        instant = datetime.fromisoformat(_text(word, value).strip().replace(" ", "+"))
    except ValueError:
        instant = None
    if instant is None or instant.tzinfo is None:
        raise FilterInvalid(word, f"{word} must be an instant with its zone, for example 2026-01-27T10:00:00Z")
    # every row is between the two
    return min(max(instant, FIRST), LAST)


def _label(word: str, value: Any) -> tuple[str, str]:
    key, colon, expected = _text(word, value).partition(":")
    if not key or not colon:
        raise FilterInvalid(word, "label must be key:value")
    return key, expected


#: a word, the member of the filter that it sets, and its parser
_WORDS: _Grammar = {
    "tenant_id": ("tenant_id", _text),
    "status": ("statuses", _some_of(JobStatus)),
    "request_type": ("request_type", _text),
    "since": ("since", _instant),
    "until": ("until", _instant),
    "label": ("label", _label),
}
WORDS = tuple(_WORDS)

_INCIDENT_WORDS: _Grammar = {
    "tenant_id": ("tenant_id", _text),
    "state": ("states", _some_of(IncidentState)),
    "kind": ("kinds", _some_of(IncidentKind)),
    "request_type": ("request_type", _text),
    "since": ("since", _instant),
    "until": ("until", _instant),
}
INCIDENT_WORDS = tuple(_INCIDENT_WORDS)
