"""Builds requests to the API, and reads their responses (no I/O).

A submit without an idempotency key gets a random key here. If the response is lost, the repeated request finds the job
that the first request created instead of creating another (R15 of docs/contributing/rules.md).
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import Any, Generic, TypeVar
from urllib.parse import quote

from pydantic import BaseModel, ValidationError

from lucius_client.errors import BadId, NotLucius
from lucius_client.exchange import Request, Response
from lucius_client.models import (
    Accepted,
    BatchOutcome,
    Bulk,
    BulkPreview,
    DependencyPage,
    DryRun,
    Envelope,
    Explanation,
    FeedPage,
    IncidentDetail,
    Job,
    Live,
    Protocol,
    ProtocolVersions,
    Quota,
    Ready,
    Receipt,
    ReceiptSums,
    Reconciled,
    RejectedMessage,
    UsageReport,
)

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)

#: a job request as a model, or as a plain JSON object
EnvelopeLike = Envelope | Mapping[str, Any]


@dataclass(frozen=True)
class Call(Generic[T]):
    """A request with the function that turns its response into a result."""

    request: Request
    #: reads the response; raises NotLucius if it has another form
    read: Callable[[Response], T]


@dataclass(frozen=True)
class Submitted:
    """The result of a submit."""

    job: Accepted
    #: `True` if an earlier identical request had created this job
    replayed: bool
    #: the job, if it ended within `wait` seconds; else None
    ended: Job | None = None


def submit(envelope: EnvelopeLike, wait: int) -> Call[Submitted]:
    """Creates a job. A job request without `idempotency_key` gets a random key. If `idempotency_key` is null, the key
    is the hash of the fields that the API compares.

    `wait` is the maximum number of seconds, up to 20, for which the API delays its response until the job has ended.
    """

    def read(response: Response) -> Submitted:
        replayed = response.header("Idempotency-Replayed") == "true"
        return Submitted(_parse(Accepted, response), replayed, read_job(response) if response.status == 200 else None)

    request = _post("/v1/orchestrate", _with_key(envelope))
    if wait > 0:
        headers = {**request.headers, "Prefer": f"wait={wait}"}
        request = replace(request, headers=headers, long_poll_s=wait)
    return Call(request, read)


def submit_many(envelopes: Iterable[EnvelopeLike], *, dry_run: bool) -> Call[BatchOutcome]:
    """Creates up to 1,000 jobs in one request of up to 1 MiB. Keys are as in `submit`. Each job has its own outcome."""
    lines = [_dump(_with_key(envelope)) for envelope in envelopes]
    request = Request(
        "POST",
        "/v1/orchestrate",
        query={"dryRun": "true"} if dry_run else {},
        headers={"Content-Type": "application/x-ndjson"},
        content=b"\n".join(lines),
    )
    return Call(request, _reader(BatchOutcome))


def dry_run(envelope: EnvelopeLike) -> Call[DryRun]:
    """Checks a job request without adding an idempotency key. Creates no job."""
    return Call(_post("/v1/orchestrate", _plain(envelope), {"dryRun": "true"}), _reader(DryRun))


def job(job_id: str, *, as_of: int | None) -> Call[Job]:
    return Call(Request("GET", _job(job_id), query=_query(asOf=as_of)), _reader(Job))


def explain(job_id: str) -> Call[Explanation]:
    return Call(Request("GET", f"{_job(job_id)}/explain"), _reader(Explanation))


def receipt(job_id: str) -> Call[Receipt]:
    return Call(Request("GET", f"{_job(job_id)}/receipt"), _reader(Receipt))


def audit(job_id: str) -> Call[dict[str, Any]]:
    """Returns the bundle as plain JSON, since its digest covers every value as sent."""
    return Call(Request("GET", f"{_job(job_id)}/audit"), json_object)


def audit_keys() -> Call[dict[str, Any]]:
    return Call(Request("GET", "/v1/audit/keys"), json_object)


def control(job_id: str, verb: str, reason: str | None) -> Call[Job]:
    """Controls a job. `verb` is cancel, pause, resume or admit."""
    return Call(_post(f"{_job(job_id)}:{verb}", _query(reason=reason)), _reader(Job))


def set_priority(job_id: str, priority: str, reason: str) -> Call[Job]:
    body = {"priority": priority, "reason": reason}
    headers = {"Content-Type": "application/json"}
    return Call(Request("PATCH", _job(job_id), headers=headers, content=_dump(body)), _reader(Job))


def redrive(job_id: str, reason: str | None, *, ignore_dependencies: bool) -> Call[Job]:
    body = _query(reason=reason) | ({"ignoreDependencies": True} if ignore_dependencies else {})
    return Call(_post(f"{_job(job_id)}:redrive", body), _reader(Job))


def redrive_tree(job_id: str, reason: str | None) -> Call[Bulk]:
    """Redrives a job and the jobs that failed because of that job."""
    return Call(_post_once(f"{_job(job_id)}:redrive", _query(reason=reason) | {"withDependants": True}), _reader(Bulk))


def dependencies(job_id: str) -> Call[DependencyPage]:
    return Call(page(dependencies_path(job_id), {"limit": 1}), _reader(DependencyPage))


def dependencies_path(job_id: str) -> str:
    return f"{_job(job_id)}/dependencies"


def start_bulk(action: str, words: Mapping[str, Any], *, reason: str, key: str | None) -> Call[Bulk]:
    body = {"action": action, "filter": _filter(words), "reason": reason}
    return Call(_post_once("/v1/bulk", body, key), _reader(Bulk))


def preview_bulk(action: str, words: Mapping[str, Any]) -> Call[BulkPreview]:
    body = {"action": action, "filter": _filter(words), "reason": "dry run", "dryRun": True}
    return Call(_post("/v1/bulk", body), _reader(BulkPreview))


def bulk(bulk_id: str, tenant: str | None) -> Call[Bulk]:
    return Call(page(bulk_path(bulk_id), {"tenant": tenant}), _reader(Bulk))


def cancel_bulk(bulk_id: str, tenant: str | None) -> Call[Bulk]:
    return Call(_post(f"{bulk_path(bulk_id)}:cancel", {}, _query(tenant=tenant)), _reader(Bulk))


def bulk_path(bulk_id: str) -> str:
    return f"/v1/bulk/{_segment(bulk_id)}"


def incident(incident_id: str) -> Call[IncidentDetail]:
    return Call(Request("GET", _incident(incident_id)), _reader(IncidentDetail))


def settle_incident(incident_id: str, verb: str, reason: str) -> Call[IncidentDetail]:
    """Closes an incident. `verb` is resolve, retry (a redrive) or dismiss."""
    return Call(_post(f"{_incident(incident_id)}:{verb}", {"reason": reason}), _reader(IncidentDetail))


def dismiss_dead_letter(job_id: str, reason: str) -> Call[Job]:
    return Call(_post(f"/v1/deadletters/{_segment(job_id)}:dismiss", {"reason": reason}), _reader(Job))


def usage(tenant: str | None, since: datetime | None, by: str | None) -> Call[UsageReport]:
    return Call(page("/v1/usage", {"tenant": tenant, "since": since, "by": by}), _reader(UsageReport))


def quota_path(known: Quota) -> str:
    return f"/v1/quotas/{_segment(known.id)}"


def quota_names(known: Quota) -> dict[str, str]:
    """Returns the names that identify the quota, even if the quota has no settings."""
    if known.name is not None:
        return _query(name=known.name)
    return _query(tenant=known.tenant, type=known.type, source=known.source)


def protocol(name: str) -> Call[Protocol]:
    return Call(Request("GET", f"/v1/protocols/{_segment(name)}"), _reader(Protocol))


def protocol_versions(name: str) -> Call[ProtocolVersions]:
    return Call(Request("GET", f"/v1/protocols/{_segment(name)}/versions"), _reader(ProtocolVersions))


def rejected_message(rejected_id: str) -> Call[RejectedMessage]:
    return Call(Request("GET", f"/v1/rejected/{_segment(rejected_id)}"), _reader(RejectedMessage))


def redrive_rejected(rejected_id: str) -> Call[RejectedMessage]:
    return Call(_post(f"/v1/rejected/{_segment(rejected_id)}:redrive", {}), _reader(RejectedMessage))


def reconcile(*, dry_run: bool) -> Call[Reconciled]:
    return Call(_post("/v1/admin/reconcile", {}, {"dryRun": "true"} if dry_run else {}), _reader(Reconciled))


def live() -> Call[Live]:
    return Call(Request("GET", "/v1/health/live", repeat=False), _reader(Live))


def ready() -> Call[Ready]:
    return Call(Request("GET", "/v1/health/ready", repeat=False), _reader(Ready))


def page(path: str, query: Mapping[str, Any]) -> Request:
    """Requests a page of a list. Parameters in `query` that are None are omitted."""
    return Request("GET", path, query=_query(**query))


def events_path(job_id: str) -> str:
    return f"{_job(job_id)}/events"


def feed(after: str, query: Mapping[str, Any], wait_s: int) -> Request:
    """Requests a page of a feed. The API can delay an empty page by up to `wait_s` seconds."""
    words = _query(**query, after=after, wait=wait_s or None)
    return Request("GET", "/v1/events", query=words, long_poll_s=wait_s)


def read_feed(response: Response) -> FeedPage:
    """Reads a page of a feed from the response. Raises NotLucius if the response has another form."""
    return _parse(FeedPage, response)


def poll_job(job_id: str, *, etag: str | None, wait_s: int, until: str | None = None) -> Request:
    """Requests a job. The API returns 304 if the job's ETag is `etag`, and delays the 304 by up to `wait_s` seconds.

    `until` delays any response by up to `wait_s` seconds, until the job is `admitted` or `ended`.
    """
    headers = {"If-None-Match": etag} if etag else {}
    query = _query(wait=wait_s, until=until) if wait_s and (etag or until) else {}
    return Request("GET", _job(job_id), query=query, headers=headers, long_poll_s=wait_s)


def read_job(response: Response) -> Job:
    """Reads the job from the response. Raises NotLucius if the response has another form."""
    return _parse(Job, response)


def read_sums(response: Response) -> ReceiptSums:
    """Reads a page of sums from the response. Raises NotLucius if the response has another form."""
    return _parse(ReceiptSums, response)


def json_object(response: Response) -> dict[str, Any]:
    """Reads the JSON object from the response. Raises NotLucius if the response has another form."""
    try:
        body = json.loads(response.body)
    except ValueError as error:
        raise NotLucius("the response is not JSON") from error
    if not isinstance(body, dict):
        raise NotLucius("the response is not a JSON object")
    return body


def _reader(model: type[M]) -> Callable[[Response], M]:
    return lambda response: _parse(model, response)


def _parse(model: type[M], response: Response) -> M:
    try:
        return model.model_validate_json(response.body)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"]) or "the response"
        raise NotLucius(f"the response is not a {model.__name__}: {place}: {first['msg']}") from error


def _with_key(envelope: EnvelopeLike) -> dict[str, Any]:
    plain = _plain(envelope)
    return plain if "idempotency_key" in plain else {**plain, "idempotency_key": str(uuid.uuid4())}


def _plain(envelope: EnvelopeLike) -> dict[str, Any]:
    return envelope.plain() if isinstance(envelope, Envelope) else dict(envelope)


def _post(path: str, body: Mapping[str, Any], query: Mapping[str, str] | None = None) -> Request:
    return Request("POST", path, query=query or {}, headers={"Content-Type": "application/json"}, content=_dump(body))


def _post_once(
    path: str, body: Mapping[str, Any], key: str | None = None, query: Mapping[str, str] | None = None
) -> Request:
    """Makes a POST with an idempotency key, so that a repetition after a lost response has no further effect."""
    headers = {"Content-Type": "application/json", "Idempotency-Key": key or str(uuid.uuid4())}
    return Request("POST", path, query=query or {}, headers=headers, content=_dump(body))


def _filter(words: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the parameters of a filter as JSON, without parameters that are None. Keeps empty values, which the API
    refuses or which match no job, since a filter without the parameter matches more jobs.
    """
    return {name: _in_json(value) for name, value in words.items() if value is not None}


def _in_json(value: Any) -> Any:
    if isinstance(value, bool):
        return value
    return list(value) if isinstance(value, Iterable) and not isinstance(value, str) else _text(value)


def _dump(body: Mapping[str, Any]) -> bytes:
    return json.dumps(body, ensure_ascii=False, allow_nan=False).encode("utf-8")


def _query(**values: Any) -> dict[str, str]:
    return {name: _text(value) for name, value in values.items() if value is not None}


def _text(value: Any) -> str:
    if isinstance(value, datetime) and value.tzinfo is None:
        raise ValueError(f"{value} has no time zone; set `tzinfo`")
    return value.isoformat() if isinstance(value, date) else str(value)


def _incident(incident_id: str) -> str:
    return f"/v1/incidents/{_segment(incident_id)}"


def _job(job_id: str) -> str:
    return f"/v1/jobs/{_segment(job_id)}"


def _segment(value: str) -> str:
    if value in ("", ".", ".."):
        raise BadId(f"{value!r} is not an id or a name; give the complete id or name")
    return quote(value, safe="")
