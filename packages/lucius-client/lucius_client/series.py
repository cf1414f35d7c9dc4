"""Results of several requests: the items of a list and the states of a job (no I/O)."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from datetime import date
from typing import Any, Generic, Literal, TypeVar

from pydantic import ValidationError

from lucius_client import calls
from lucius_client.errors import NotLucius, WaitTimeout
from lucius_client.exchange import Flow, Pause
from lucius_client.filters import IncidentFilter, JobFilter
from lucius_client.message import Message
from lucius_client.models import (
    Bulk,
    BulkItem,
    DeadLetter,
    Event,
    Incident,
    Job,
    JobLine,
    Protocol,
    Quota,
    QuotaLogEntry,
    ReceiptSums,
    RejectedLine,
    RelatedJob,
    SeenSource,
    WaitingJob,
)
from lucius_client.retry import Retries, send

M = TypeVar("M", bound=Message)
T = TypeVar("T")

#: items of one page
PAGE = 100
#: maximum seconds for which the API delays its response while nothing happens (decision 38)
LONG_POLL_S = 20
#: minimum seconds between two reads of a job, after a change and after none. They limit the load if an API does not
#: delay its responses
_AFTER_CHANGE_S = 0.2
_AFTER_NONE_S = 1.0
#: states of an ended job
TERMINAL = frozenset({"SUCCEEDED", "FAILED_FINAL", "CANCELLED"})


class Series(ABC, Generic[T]):
    """Items that several requests fetch. While `more` is true, `next` returns the items of one response, which can be
    empty.
    """

    #: `False` if there is nothing left to fetch
    more: bool

    @abstractmethod
    def next(self) -> Flow[list[T]]: ...


class Lines(Series[M]):
    """The items of a list, fetched page by page.

    `key` is the field of the response with the items. `limit` is the maximum number of items, or None for all items.
    `paged` is False if the route has no pages. `next` raises NotLucius if a response has another form.
    """

    def __init__(
        self,
        model: type[M],
        path: str,
        key: str,
        query: Mapping[str, Any],
        *,
        limit: int | None,
        retries: Retries,
        paged: bool = True,
    ) -> None:
        self._model = model
        self._path = path
        self._key = key
        self._query = dict(query)
        self._left = limit
        self._retries = retries
        self._paged = paged
        self.more = limit is None or limit > 0

    def next(self) -> Flow[list[M]]:
        if self._paged:
            self._query["limit"] = PAGE if self._left is None else min(PAGE, self._left)
        body = calls.json_object((yield from send(calls.page(self._path, self._query), self._retries)))
        try:
            lines = [self._model.model_validate(line) for line in body[self._key]]
        except (KeyError, TypeError, ValidationError) as error:
            raise NotLucius(f"the response is not a page of {self._key}") from error
        if self._left is not None:
            lines = lines[: self._left]
            self._left -= len(lines)
        self._query["cursor"] = body.get("next")
        self.more = bool(body.get("next")) and self._left != 0
        return lines


def _query(filters: Mapping[str, object]) -> dict[str, object]:
    """Returns a filter as query parameters, with commas between several values of one parameter."""
    return {name: _value(value) for name, value in filters.items()}


def _value(value: object) -> object:
    if isinstance(value, bool):
        return "true" if value else "false"
    return ",".join(value) if isinstance(value, Iterable) and not isinstance(value, str) else value


def jobs(filters: JobFilter, limit: int | None, retries: Retries) -> Lines[JobLine]:
    return Lines(JobLine, "/v1/jobs", "jobs", _query(filters), limit=limit, retries=retries)


def events(job_id: str, limit: int | None, retries: Retries) -> Lines[Event]:
    return Lines(Event, calls.events_path(job_id), "events", {}, limit=limit, retries=retries)


def dead_letters(filters: JobFilter, limit: int | None, retries: Retries) -> Lines[DeadLetter]:
    return Lines(DeadLetter, "/v1/deadletters", "deadletters", _query(filters), limit=limit, retries=retries)


def incidents(filters: IncidentFilter, limit: int | None, retries: Retries) -> Lines[Incident]:
    return Lines(Incident, "/v1/incidents", "incidents", _query(filters), limit=limit, retries=retries)


def protocols(retries: Retries) -> Lines[Protocol]:
    return Lines(Protocol, "/v1/protocols", "protocols", {}, limit=None, retries=retries, paged=False)


def quotas(tenant: str | None, limit: int | None, retries: Retries) -> Lines[Quota]:
    return Lines(Quota, "/v1/quotas", "quotas", {"tenant": tenant}, limit=limit, retries=retries)


def waiting(known: Quota, limit: int | None, retries: Retries) -> Lines[WaitingJob]:
    path = f"{calls.quota_path(known)}/waiting"
    return Lines(WaitingJob, path, "waiting", calls.quota_names(known), limit=limit, retries=retries)


def quota_log(known: Quota, limit: int | None, retries: Retries) -> Lines[QuotaLogEntry]:
    path = f"{calls.quota_path(known)}/log"
    return Lines(QuotaLogEntry, path, "entries", calls.quota_names(known), limit=limit, retries=retries)


def sources(tenant: str | None, limit: int | None, retries: Retries) -> Lines[SeenSource]:
    return Lines(SeenSource, "/v1/sources", "sources", {"tenant": tenant}, limit=limit, retries=retries)


def bulks(tenant: str | None, limit: int | None, retries: Retries) -> Lines[Bulk]:
    return Lines(Bulk, "/v1/bulk", "bulks", {"tenant": tenant}, limit=limit, retries=retries)


def bulk_items(
    bulk_id: str, tenant: str | None, outcome: str | None, limit: int | None, retries: Retries
) -> Lines[BulkItem]:
    query = {"tenant": tenant, "outcome": outcome}
    return Lines(BulkItem, f"{calls.bulk_path(bulk_id)}/items", "items", query, limit=limit, retries=retries)


def dependants(job_id: str, limit: int | None, retries: Retries) -> Lines[RelatedJob]:
    return Lines(RelatedJob, calls.dependencies_path(job_id), "dependants", {}, limit=limit, retries=retries)


def rejected(tenant: str | None, day: date | None, limit: int | None, retries: Retries) -> Lines[RejectedLine]:
    query = {"tenant": tenant, "date": day}
    return Lines(RejectedLine, "/v1/rejected", "rejected", query, limit=limit, retries=retries)


class Pages(Series[dict[str, Any]]):
    """The pages of a list as plain JSON, for content that is signed or hashed as sent."""

    def __init__(self, path: str, query: Mapping[str, Any], retries: Retries) -> None:
        self._path = path
        self._query = dict(query)
        self._retries = retries
        self.more = True

    def next(self) -> Flow[list[dict[str, Any]]]:
        page = calls.json_object((yield from send(calls.page(self._path, self._query), self._retries)))
        self._query["cursor"] = page.get("next")
        self.more = bool(page.get("next"))
        return [page]


class Sums(Series[ReceiptSums]):
    """The sums of a tenant's jobs, one page per request."""

    def __init__(self, query: Mapping[str, Any], retries: Retries) -> None:
        self._query = dict(query)
        self._retries = retries
        self.more = True

    def next(self) -> Flow[list[ReceiptSums]]:
        page = calls.read_sums((yield from send(calls.page("/v1/receipts", self._query), self._retries)))
        self._query["cursor"] = page.next
        self.more = page.next is not None
        return [page]


class Changes(Series[Job]):
    """The present state of a job, and its state after each change, until the job has ended.

    The requests are long polls of up to `LONG_POLL_S` seconds. The API returns 304 if the job did not change. With
    `until`, each request waits until the job is `admitted` or `ended`. With `admitted`, the series ends after the
    admission.

    `next` raises WaitTimeout after `timeout_s` seconds. None means no time limit.
    """

    def __init__(
        self,
        job_id: str,
        timeout_s: float | None,
        retries: Retries,
        clock: Callable[[], float] = time.monotonic,
        *,
        until: Literal["admitted", "ended"] | None = None,
    ) -> None:
        self._job_id = job_id
        self._retries = retries
        self._clock = clock
        self._until = until
        self._end = None if timeout_s is None else clock() + timeout_s
        self._etag: str | None = None
        self._job: Job | None = None
        self._pause_s = _AFTER_CHANGE_S
        self.more = True

    def next(self) -> Flow[list[Job]]:
        if self._job is not None:
            yield Pause(min(self._pause_s, self._left_s()))
        began = self._clock()
        wait_s = int(min(LONG_POLL_S, self._left_s()))
        request = calls.poll_job(self._job_id, etag=self._etag, wait_s=wait_s, until=self._until)
        response = yield from send(request, self._retries)
        after_none_s = max(0.0, _AFTER_NONE_S - (self._clock() - began))
        if response.status == 304:
            self._pause_s = after_none_s
            return []
        self._pause_s = _AFTER_CHANGE_S if self._until is None else after_none_s
        self._etag = response.header("ETag")
        self._job = calls.read_job(response)
        waits = self._job.staged_at is not None and self._job.admitted_at is None
        self.more = self._job.status not in TERMINAL and (waits or self._until != "admitted")
        return [self._job]

    def _left_s(self) -> float:
        """Returns the seconds until the time limit. After the time limit, raises WaitTimeout, or returns 0 if there was
        no response yet.
        """
        left_s = float("inf") if self._end is None else self._end - self._clock()
        if left_s <= 0 and self._job is not None:
            raise WaitTimeout(self._job)
        return max(0.0, left_s)
