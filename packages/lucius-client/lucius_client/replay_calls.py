"""Requests for replays, with the functions that read their responses."""

from __future__ import annotations

from lucius_client.calls import Call, _job, _post, _post_once, _query, _reader
from lucius_client.exchange import Request
from lucius_client.models import Comparison, Replay


def replay(job_id: str, reason: str, mode: str, priority: str | None, key: str | None) -> Call[Replay]:
    """Requests a replay. If `key` is None, the API uses the hash of the body as the key."""
    path, body = f"{_job(job_id)}:replay", {**_query(reason=reason, mode=mode, priority=priority)}
    return Call(_post(path, body) if key is None else _post_once(path, body, key), _reader(Replay))


def comparison(job_id: str) -> Call[Comparison]:
    return Call(Request("GET", f"{_job(job_id)}/comparison"), _reader(Comparison))
