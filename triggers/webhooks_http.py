"""`/v1/webhooks`: the endpoints that get a tenant's events (R84, R86, R87)."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import azure.functions as func

from shared import refusals, webhook_refusals
from shared.access.caller import Scope
from shared.access.webhook_signature import secrets_of
from shared.api import webhook as views
from shared.api.webhook import (
    DefaultSecret,
    HookChange,
    HookDetail,
    HookFilterBody,
    HookLog,
    HookPage,
    HookSecret,
    HookTest,
    NewHook,
)
from shared.apidocs.problem_codes import ProblemCode
from shared.apidocs.route import NO_STORE, Route, in_header, in_path, in_query
from shared.core.events.event_types import OF_HOOKS, PublicType
from shared.core.events.public_events import MAX_VALUE_BYTES, encode_json
from shared.core.gates.rules import EVERY
from shared.core.jobs.routing import normalise
from shared.core.webhooks.webhooks import DEFAULT_HOOK, DeliveryState, Hook, HookFilter, HookFormat
from shared.operations.process.context import Context
from shared.operations.webhooks import webhooks
from triggers.bulk_http import MAX_KEY, key_of
from triggers.http.bodies import BODY_PROBLEMS, optional_body
from triggers.http.problems import RequestError
from triggers.http.responses import correlation_id, respond
from triggers.http.routes import Request

_ID = re.compile(rf"{DEFAULT_HOOK}|hook_[0-9a-f]{{32}}")

HOOK_ID = in_path(
    "hookId",
    {"type": "string", "pattern": f"^({_ID.pattern})$"},
    f"`hookId` of the webhook. `{DEFAULT_HOOK}`: the callback URLs of the tenant's jobs.",
)
TENANT = in_query(
    "tenant_id",
    {"type": "string"},
    "Tenant of the webhook. Default: the caller's tenant. `=platform`: webhooks that belong to no tenant. All-tenants "
    "callers can read these webhooks, and operators can change them.",
)
_TENANT_PROBLEMS = (
    # raised if a tenant's name is too long for a key
    ProblemCode.NOT_STORABLE,
    ProblemCode.TENANT_REQUIRED,
    refusals.TenantForbidden,
    webhook_refusals.WebhooksOff,
)
HOOK_PROBLEMS = (*_TENANT_PROBLEMS, webhook_refusals.HookNotFound)
_OWN_PROBLEMS = (*HOOK_PROBLEMS, webhook_refusals.DefaultHook)
_BODY_PROBLEMS = (ProblemCode.HOOK_INVALID, webhook_refusals.HookUrlRefused, *BODY_PROBLEMS)

HOOK_KEY = in_header(
    "Idempotency-Key",
    {"type": "string", "maxLength": MAX_KEY},
    f"Idempotency key, at most {MAX_KEY} characters. The same key and body return the same webhook with its secret. "
    "After a change of the URL, format, filter or description, after a rotation or deletion, or with another body, the "
    "same key returns 409. The key of a deleted webhook can be used again after the webhook's log is deleted.",
)

route = partial(Route, scope=Scope.ADMIN, tag="webhooks")


@route(
    function="webhooks_create",
    method="POST",
    path="v1/webhooks",
    summary="Create a webhook",
    description="Creates a webhook. LUCIUS sends each matching event of the tenant to the URL at least once, signed as "
    "Standard Webhooks specifies. Reading the webhook does not show the signing secret. If a request has no "
    "`Idempotency-Key`, each repeat creates another webhook.",
    parameters=(TENANT, HOOK_KEY),
    body=NewHook,
    body_required=True,
    responses={201: HookSecret},
    headers={201: ("Location", "Idempotency-Replayed")},
    caching=NO_STORE,
    problems=(
        *_TENANT_PROBLEMS,
        *_BODY_PROBLEMS,
        webhook_refusals.HookKeyGone,
        webhook_refusals.HookLimit,
        refusals.IdempotencyConflict,
    ),
)
async def _create(request: Request) -> func.HttpResponse:
    context, tenant = await request.fresh_context(), tenant_of(request)
    body = optional_body(request.http, NewHook, ProblemCode.HOOK_INVALID)
    asked = webhooks.HookRequest(
        url=body.url,
        format=HookFormat(body.format),
        filter=_filter_of(context, body.filter),
        description=body.description,
        after=body.after,
    )
    key = key_of(request.http, ProblemCode.HOOK_INVALID)
    made, replayed = await webhooks.create_hook(context, tenant, asked, request.caller.actor, key=key)
    shown = views.hook_secret(made, _secrets_of(context, made)[0])
    headers = {"Location": shown.links.self, **({"Idempotency-Replayed": "true"} if replayed else {})}
    return respond(request.http, shown, status=201, headers=headers)


@route(
    function="webhooks_list",
    method="GET",
    path="v1/webhooks",
    summary="List a tenant's webhooks",
    parameters=(TENANT,),
    responses={200: HookPage},
    problems=_TENANT_PROBLEMS,
)
async def _list(request: Request) -> func.HttpResponse:
    found = await webhooks.list_hooks(request.context(), tenant_of(request))
    return respond(request.http, HookPage(webhooks=[views.hook(each) for each in found]))


@route(
    function="webhooks_read",
    method="GET",
    path="v1/webhooks/{hookId}",
    summary="Get a webhook",
    description="Returns the webhook with the state of its deliveries.",
    parameters=(HOOK_ID, TENANT),
    responses={200: HookDetail},
    problems=HOOK_PROBLEMS,
)
async def _read(request: Request) -> func.HttpResponse:
    context, tenant, hook_id = request.context(), tenant_of(request), hook_id_of(request)
    return await _shown(request, context, await webhooks.read_hook(context, tenant, hook_id))


@route(
    function="webhooks_change",
    method="PATCH",
    path="v1/webhooks/{hookId}",
    summary="Update a webhook",
    description="Changes the URL, filter, format, description or state of the webhook. Waiting deliveries go to the "
    "new URL. The secret does not change. `:rotate` creates another secret.",
    parameters=(HOOK_ID, TENANT),
    body=HookChange,
    body_required=True,
    responses={200: HookDetail},
    problems=(*_OWN_PROBLEMS, *_BODY_PROBLEMS),
)
async def _change(request: Request) -> func.HttpResponse:
    context, tenant, hook_id = await request.fresh_context(), tenant_of(request), hook_id_of(request)
    changes = optional_body(request.http, HookChange, ProblemCode.HOOK_INVALID).changes()
    if "format" in changes:
        changes["format"] = HookFormat(changes["format"])
    if "filter" in changes:
        changes["filter"] = _filter_of(context, changes["filter"])
    changed = await webhooks.change_hook(context, tenant, hook_id, changes, request.caller.actor)
    return await _shown(request, context, changed)


@route(
    function="webhooks_remove",
    method="DELETE",
    path="v1/webhooks/{hookId}",
    summary="Delete a webhook",
    description="Deletes the webhook and its waiting deliveries. Each entry of the webhook's log is retained for the "
    "longer of `LUCIUS_CHANGE_LOG_DAYS` and `LUCIUS_FEED_DAYS`.",
    parameters=(HOOK_ID, TENANT),
    responses={204: None},
    descriptions={204: "The webhook is deleted."},
    problems=_OWN_PROBLEMS,
)
async def _remove(request: Request) -> func.HttpResponse:
    context, tenant, hook_id = request.context(), tenant_of(request), hook_id_of(request)
    await webhooks.remove_hook(context, tenant, hook_id, request.caller.actor)
    return func.HttpResponse(status_code=204, headers={"X-Correlation-Id": correlation_id(request.http)})


@route(
    function="webhooks_test",
    method="POST",
    path="v1/webhooks/{hookId}:test",
    summary="Send a test event",
    description="Sends an event of type `webhook.test` now. The event is in no feed and does not affect the state of "
    "the webhook.",
    parameters=(HOOK_ID, TENANT),
    responses={200: HookTest},
    problems=(*_OWN_PROBLEMS, refusals.Overloaded),
)
async def _test(request: Request) -> func.HttpResponse:
    context, tenant, hook_id = request.context(), tenant_of(request), hook_id_of(request)
    return respond(request.http, views.hook_test(await webhooks.send_test_event(context, tenant, hook_id)))


@route(
    function="webhooks_rotate",
    method="POST",
    path="v1/webhooks/{hookId}:rotate",
    summary="Rotate a webhook's secret",
    description="Creates a new secret. The old secret also signs for 24 hours. A second rotation within 24 hours "
    "revokes the oldest secret immediately.",
    parameters=(HOOK_ID, TENANT),
    responses={200: HookSecret},
    caching=NO_STORE,
    problems=HOOK_PROBLEMS,
)
async def _rotate(request: Request) -> func.HttpResponse:
    context, tenant, hook_id = request.context(), tenant_of(request), hook_id_of(request)
    rotated = await webhooks.rotate_hook(context, tenant, hook_id, request.caller.actor)
    return respond(request.http, views.hook_secret(rotated, _secrets_of(context, rotated)[0]))


@route(
    function="webhooks_resume",
    method="POST",
    path="v1/webhooks/{hookId}:resume",
    summary="Resume a webhook",
    description="Enables the webhook and sends its waiting deliveries now, oldest first, without a wait for the next "
    "probe.",
    parameters=(HOOK_ID, TENANT),
    responses={200: HookDetail},
    problems=_OWN_PROBLEMS,
)
async def _resume(request: Request) -> func.HttpResponse:
    context, tenant, hook_id = request.context(), tenant_of(request), hook_id_of(request)
    resumed = await webhooks.resume_hook(context, tenant, hook_id, request.caller.actor)
    return await _shown(request, context, resumed)


@route(
    function="webhooks_default_secret",
    method="GET",
    # the host would match `default:secret` as a `hookId`
    path=f"v1/webhooks/{DEFAULT_HOOK}/secret",
    summary="Get the default webhook's secret",
    description="Returns the secrets that sign requests to the callback URLs of the tenant's jobs. Requires a token "
    "that can change these jobs.",
    parameters=(TENANT,),
    responses={200: DefaultSecret},
    caching=NO_STORE,
    problems=(*_TENANT_PROBLEMS, webhook_refusals.HookKeyGone),
)
async def _secret(request: Request) -> func.HttpResponse:
    context, tenant = request.context(), tenant_of(request)
    if not request.caller.may_move(tenant):
        # a caller with the secret can sign
        raise refusals.TenantForbidden("reading the secret requires a token that can change this tenant's jobs")
    found = await webhooks.read_hook(context, tenant, DEFAULT_HOOK)
    return respond(request.http, views.default_secret(found, _secrets_of(context, found)))


def _secrets_of(context: Context, hook: Hook) -> list[bytes]:
    """Returns the secrets, newest first. Raises HookKeyGone."""
    settings = context.settings
    return secrets_of(settings.webhook_keys, hook, context.clock.now(), deployment=settings.environment)


@route(
    function="webhooks_log",
    method="GET",
    path="v1/webhooks/{hookId}/log",
    summary="List a webhook's changes",
    description="Lists the changes of a webhook, oldest first, even if the webhook is deleted.",
    parameters=(HOOK_ID, TENANT),
    responses={200: HookLog},
    problems=HOOK_PROBLEMS,
)
async def _log(request: Request) -> func.HttpResponse:
    context, tenant, hook_id = request.context(), tenant_of(request), hook_id_of(request)
    entries = await webhooks.list_hook_log(context, tenant, hook_id)
    return respond(request.http, HookLog(entries=[views.HookLogEntry.of(each) for each in entries]))


async def _shown(request: Request, context: Context, found: Any) -> func.HttpResponse:
    waiting, _ = await webhooks.list_deliveries(
        context, found.tenant, found.id, state=DeliveryState.PENDING, after=None, limit=1
    )
    return respond(request.http, views.hook_detail(found, waiting[0].created_at if waiting else None))


def tenant_of(request: Request) -> str:
    """Returns the tenant. Raises RequestError (400), TenantForbidden."""
    named = request.http.params.get("tenant_id")
    moving = request.http.method not in ("GET", "HEAD")
    tenant = normalise(request.caller.tenant_for(named, moving=moving) or request.caller.tenant or "")
    # `*` means every tenant in other routes; a webhook for it would get nothing
    if tenant in ("", EVERY):
        raise RequestError(ProblemCode.TENANT_REQUIRED, "tenant missing; add tenant_id=...")
    return tenant


def hook_id_of(request: Request) -> str:
    """Returns the webhook id. Raises HookNotFound if its form is invalid."""
    given: str = request.http.route_params["hookId"]
    if _ID.fullmatch(given) is None:
        raise webhook_refusals.HookNotFound(given)
    return given


def _filter_of(context: Context, body: HookFilterBody | None) -> HookFilter:
    """Returns the filter. Raises RequestError (400) for a name that no event can have."""
    if body is None:
        return HookFilter()
    # webhooks get no events about webhooks
    known = {*PublicType} - OF_HOOKS
    wrong = [
        (f"filter.types.{n}", f"{each} is not an event type of webhooks")
        for n, each in enumerate(body.types)
        if each not in known
    ]
    wrong += [
        (f"filter.job_types.{n}", f"{each} is not a known job type")
        for n, each in enumerate(body.job_types)
        if context.registry.find(each) is None
    ]
    if len(encode_json(dict(body.labels))) > MAX_VALUE_BYTES:
        # nor could its row have any number of labels
        wrong.append(
            ("filter.labels", f"has more than {MAX_VALUE_BYTES:,} bytes and matches no event; shorten the labels")
        )
    if wrong:
        detail = "a value of the filter matches no event; see errors"
        raise RequestError(ProblemCode.HOOK_INVALID, detail, errors=tuple(wrong))
    return HookFilter(types=frozenset(body.types), job_types=frozenset(body.job_types), labels=dict(body.labels))
