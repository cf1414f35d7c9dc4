"""`/v1/audit/...`: bodies, rights, and each refusal (R24, R91)."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, cast

import azure.durable_functions as df
import azure.functions as func
import pytest

from shared.access.caller import Caller, Scope
from shared.api.audit_heads import AnchorPage, AuditKeys, HeadsPage
from shared.core.jobs.routing import PLATFORM
from shared.operations.audit.write_anchors import write_anchors
from shared.wiring import Wiring, seen_by
from tests.api.strict import misfits
from tests.operations.audit.test_anchors import day_with_jobs
from tests.operations.conftest import world
from tests.triggers.http.test_routes import OneCaller
from tests.worlds.audit import Audited, audited, verified
from tests.worlds.events import TENANT
from triggers import audit_http
from triggers.http.routes import add, list_routes

__all__ = ["audited", "world"]  # fixtures

AUDITOR = Caller(actor="user:1", scopes=frozenset({Scope.AUDIT}), tenant=TENANT)
OF_ALL = replace(AUDITOR, tenant=None, sees_all=True)


async def get(audited: Audited, path: str, caller: Caller = AUDITOR, **params: str) -> tuple[int, dict[str, Any]]:
    [(route, handler)] = [each for each in list_routes([audit_http]) if each[0].path == f"v1/audit/{path}"]
    blueprint, app = df.Blueprint(), df.DFApp()
    add(blueprint, route, handler, cast(Wiring, OneCaller(audited.world, caller)))
    app.register_functions(blueprint)
    [function] = app.get_functions()
    request = func.HttpRequest("GET", f"/{route.path}", params=params, body=b"")
    response = await function.get_user_function()(request)
    return response.status_code, json.loads(response.get_body())


async def test_an_auditor_reads_heads_anchors_and_keys(audited: Audited) -> None:
    """Each with the fields that the API documents have."""
    await day_with_jobs(audited)
    status, page = await get(audited, "heads")
    assert (status, page["next"], misfits(HeadsPage, page)) == (200, None, [])
    statement = await verified(audited, page["envelope"])
    assert len(statement["predicate"]["heads"]) == 2
    await write_anchors(audited.world.context)
    status, anchors = await get(audited, "anchors")
    assert (status, misfits(AnchorPage, anchors)) == (200, [])
    assert [len(each["lines"]) for each in anchors["anchors"]] == [3]
    await verified(audited, anchors["anchors"][0]["envelope"])
    status, keys = await get(audited, "keys")
    assert (status, misfits(AuditKeys, keys)) == (200, [])
    [key] = keys["keys"]
    assert (key["state"], key["keyid"]) == ("active", (await audited.audit.signer.public_key()).key_id)


@pytest.mark.parametrize("path", ["heads", "anchors"])
async def test_a_tenant_reads_its_own(audited: Audited, path: str) -> None:
    """Another tenant's heads are refused, also those of no tenant; a caller of all tenants names one."""
    await day_with_jobs(audited)
    for tenant in ("tenant_b", PLATFORM):
        status, problem = await get(audited, path, tenant=tenant)
        assert (status, problem["code"]) == (403, "TENANT_FORBIDDEN")
    assert (await get(audited, path, tenant=TENANT))[0] == 200
    assert (await get(audited, path, OF_ALL, tenant=TENANT))[0] == 200
    status, problem = await get(audited, path, OF_ALL)
    assert (status, problem["code"]) == (400, "TENANT_REQUIRED")
    status, problem = await get(audited, path, replace(AUDITOR, scopes=frozenset({Scope.READ})))
    assert (status, problem["code"]) == (403, "SCOPE_MISSING")


@pytest.mark.parametrize(
    ("path", "params", "code"),
    [
        ("heads", {"since": "yesterday"}, (400, "SINCE_INVALID")),
        ("heads", {"until": "2026-01-27T10:00:00"}, (400, "UNTIL_INVALID")),
        ("heads", {"cursor": "e30="}, (400, "CURSOR_INVALID")),
        ("heads", {"cursor": "e30=.e30="}, (400, "CURSOR_INVALID")),
        ("heads", {"limit": "5"}, (400, "PARAMETER_UNKNOWN")),
        ("heads", {"since": "2020-01-01T00:00:00Z"}, (409, "HEADS_MISSING")),
        ("heads", {"until": "2030-01-01T00:00:00Z"}, (409, "HEADS_INCOMPLETE")),
        ("anchors", {"since": "2020"}, (400, "SINCE_INVALID")),
        ("anchors", {"cursor": "e30="}, (400, "CURSOR_INVALID")),
        ("anchors", {"cursor": "%%"}, (400, "CURSOR_INVALID")),
    ],
)
async def test_bad_input_is_a_problem(
    audited: Audited, path: str, params: dict[str, str], code: tuple[int, str]
) -> None:
    await day_with_jobs(audited)
    status, problem = await get(audited, path, **params)
    assert (status, problem["code"]) == code


async def test_without_a_key_each_route_is_off(audited: Audited) -> None:
    off = replace(audited, world=audited.context_without())
    for path in ("heads", "anchors", "keys"):
        status, problem = await get(off, path)
        assert (status, problem["code"]) == (404, "AUDIT_OFF")


async def test_a_key_that_is_gone(audited: Audited) -> None:
    """Only requests that need a signature are refused."""
    await day_with_jobs(audited)
    audited.key.unlink()
    assert {path: (await get(audited, path))[0] for path in ("heads", "anchors", "keys")} == {
        "heads": 503,
        "anchors": 200,
        "keys": 200,
    }


async def test_the_store_refuses_another_tenants_heads(audited: Audited) -> None:
    """Without a check in the handler (R24); and no request writes heads."""
    await day_with_jobs(audited)
    context = seen_by(AUDITOR, audited.world.context, moving=False)
    assert context.audit is not None
    today = audited.today
    assert len(await context.audit.heads.list_days(TENANT, today.replace(day=1), today, limit=10)) == 2
    for call in (
        context.audit.heads.list_days("tenant_b", today, today, limit=1),
        context.audit.heads.read_completed("tenant_b"),
        context.audit.heads.remove_before(TENANT, today, limit=1),
    ):
        with pytest.raises(PermissionError):
            await call
