"""Each call of the API about webhooks, with the function that reads its response (no I/O).

A creation has an idempotency key. The client never repeats a rotation: after a lost response, a repetition replaces a
secret that is already in use.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from lucius_client.calls import Call, _post, _post_once, _query, _reader, _segment
from lucius_client.exchange import Request, Response
from lucius_client.models import DefaultSecret, Delivery, Hook, HookDetail, HookLog, HookPage, HookSecret, HookTest
from lucius_client.retry import Retries
from lucius_client.series import Lines

_ROOT = "/v1/webhooks"


def create(members: Mapping[str, Any], tenant: str | None, key: str | None) -> Call[HookSecret]:
    return Call(_post_once(_ROOT, members, key, _query(tenant_id=tenant)), _reader(HookSecret))


def webhooks(tenant: str | None) -> Call[list[Hook]]:
    read = _reader(HookPage)
    return Call(Request("GET", _ROOT, query=_query(tenant_id=tenant)), lambda response: read(response).webhooks)


def webhook(hook_id: str, tenant: str | None) -> Call[HookDetail]:
    return Call(Request("GET", _path(hook_id), query=_query(tenant_id=tenant)), _reader(HookDetail))


def change(hook_id: str, members: Mapping[str, Any], tenant: str | None) -> Call[HookDetail]:
    request = replace(_post(_path(hook_id), members, _query(tenant_id=tenant)), method="PATCH")
    return Call(request, _reader(HookDetail))


def remove(hook_id: str, tenant: str | None) -> Call[None]:
    return Call(Request("DELETE", _path(hook_id), query=_query(tenant_id=tenant)), _nothing)


def test(hook_id: str, tenant: str | None) -> Call[HookTest]:
    return Call(_once(Request("POST", f"{_path(hook_id)}:test", query=_query(tenant_id=tenant))), _reader(HookTest))


def rotate(hook_id: str, tenant: str | None) -> Call[HookSecret]:
    return Call(_once(Request("POST", f"{_path(hook_id)}:rotate", query=_query(tenant_id=tenant))), _reader(HookSecret))


def resume(hook_id: str, tenant: str | None) -> Call[HookDetail]:
    return Call(Request("POST", f"{_path(hook_id)}:resume", query=_query(tenant_id=tenant)), _reader(HookDetail))


def default_secret(tenant: str | None) -> Call[DefaultSecret]:
    return Call(Request("GET", f"{_ROOT}/default/secret", query=_query(tenant_id=tenant)), _reader(DefaultSecret))


def redeliver(hook_id: str, number: int, name: str | None, tenant: str | None) -> Call[Delivery]:
    path = f"{_path(hook_id)}/deliveries/{number}:redeliver"
    return Call(Request("POST", path, query=_query(tenant_id=tenant, name=name)), _reader(Delivery))


def log(hook_id: str, tenant: str | None) -> Call[HookLog]:
    return Call(Request("GET", f"{_path(hook_id)}/log", query=_query(tenant_id=tenant)), _reader(HookLog))


def deliveries(
    hook_id: str, state: str | None, tenant: str | None, limit: int | None, retries: Retries
) -> Lines[Delivery]:
    query = {"tenant_id": tenant, "state": state}
    return Lines(Delivery, f"{_path(hook_id)}/deliveries", "deliveries", query, limit=limit, retries=retries)


def webhook_filter(
    types: Iterable[str] | None, job_types: Iterable[str] | None, labels: Mapping[str, str] | None
) -> dict[str, Any] | None:
    """Returns the filter of a webhook, or None if no condition is given."""
    lists = {"types": types, "job_types": job_types}
    found: dict[str, Any] = {name: list(names) for name, names in lists.items() if names is not None}
    return found | ({"labels": dict(labels)} if labels is not None else {}) or None


def _path(hook_id: str) -> str:
    return f"{_ROOT}/{_segment(hook_id)}"


def _once(request: Request) -> Request:
    return replace(request, repeat=False)


def _nothing(response: Response) -> None:
    """Reads nothing, since 204 has no body."""
