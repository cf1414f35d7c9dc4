"""Webhooks by both clients and by `lucius webhooks`, against a stub with the answers of the documents."""

from __future__ import annotations

import json
from dataclasses import replace
from operator import methodcaller
from typing import Any

import pytest

from lucius_client import Refused, ServerFault, Unavailable
from shared.apidocs.webhook_examples import by_model
from tests.lucius_client.cli.command import run_main
from tests.lucius_client.conftest import EitherClient
from tests.lucius_client.stub_api import CannedResponse, ReceivedRequest, serving

ANSWERS = by_model("job_1")
HOOK = ANSWERS["HookSecret"]["hookId"]
SECRET = ANSWERS["HookSecret"]["secret"]


def answer(name: str) -> CannedResponse:
    return CannedResponse(body=ANSWERS[name])


def sent(request: ReceivedRequest) -> tuple[str, str, Any]:
    return request.method, request.path, json.loads(request.body) if request.body else None


@pytest.mark.parametrize(
    ("call", "named", "expected"),
    [
        (
            methodcaller("create_webhook", "https://a.b/c", types=["job.failed"], labels={"team": "x"}, after=0),
            "HookSecret",
            (
                "POST",
                "/v1/webhooks",
                {
                    "url": "https://a.b/c",
                    "format": "cloudevents",
                    "description": "",
                    "filter": {"types": ["job.failed"], "labels": {"team": "x"}},
                    "after": 0,
                },
            ),
        ),
        (
            methodcaller("webhook", HOOK, tenant="a b"),
            "HookDetail",
            ("GET", f"/v1/webhooks/{HOOK}?tenant_id=a+b", None),
        ),
        (
            methodcaller("change_webhook", HOOK, {"enabled": False, "filter": None}),
            "HookDetail",
            ("PATCH", f"/v1/webhooks/{HOOK}", {"enabled": False, "filter": None}),
        ),
        (methodcaller("test_webhook", HOOK), "HookTest", ("POST", f"/v1/webhooks/{HOOK}:test", None)),
        (methodcaller("rotate_webhook", "default"), "HookSecret", ("POST", "/v1/webhooks/default:rotate", None)),
        (methodcaller("resume_webhook", HOOK), "HookDetail", ("POST", f"/v1/webhooks/{HOOK}:resume", None)),
        (methodcaller("callback_secret"), "DefaultSecret", ("GET", "/v1/webhooks/default/secret", None)),
        (
            methodcaller("redeliver", "default", 7, name="done"),
            "Delivery",
            ("POST", "/v1/webhooks/default/deliveries/7:redeliver?name=done", None),
        ),
    ],
)
async def test_each_call_is_one_request(
    either: EitherClient,
    call: methodcaller[Any],
    named: str,
    expected: tuple[str, str, Any],
) -> None:
    """With its members and its tenant; the answer is the model of the documents."""
    with serving(answer(named)) as api:
        found = await either.call(api.url, call)
    assert [sent(each) for each in api.requests] == [expected]
    assert (
        found.plain().items()
        >= {
            name: value for name, value in ANSWERS[named].items() if isinstance(value, str | int) and "_at" not in name
        }.items()
    )


async def test_lists_and_what_has_no_answer(either: EitherClient) -> None:
    """Webhooks, deliveries page by page, a log, and a removal."""
    [delivery] = ANSWERS["DeliveryPage"]["deliveries"]
    pages = [{"deliveries": [delivery], "next": "two"}, {"deliveries": [delivery], "next": None}]
    with serving(*(CannedResponse(body=each) for each in pages)) as api:
        found = await either.call(api.url, methodcaller("deliveries", HOOK, state="PENDING"))
    assert [each.number for each in found] == [1043, 1043]
    assert {each.path.split("&limit")[0] for each in api.requests} == {f"/v1/webhooks/{HOOK}/deliveries?state=PENDING"}
    with serving(answer("HookPage")) as api:
        assert [each.hookId for each in await either.call(api.url, methodcaller("webhooks"))] == [HOOK]
    with serving(answer("HookLog")) as api:
        assert [each.type for each in await either.call(api.url, methodcaller("webhook_log", HOOK))] == ["CREATED"]
    with serving(CannedResponse(status=204, body=b"")) as api:
        assert await either.call(api.url, methodcaller("remove_webhook", HOOK)) is None


async def test_a_rotation_is_sent_once(either: EitherClient) -> None:
    """A repetition would create a second secret and lose the first."""
    with serving(CannedResponse(status=503, body={})) as api, pytest.raises((Refused, Unavailable, ServerFault)):
        await either.call(api.url, methodcaller("rotate_webhook", HOOK))
    assert len(api.requests) == 1


@pytest.mark.parametrize("key", [None, "billing"])
async def test_a_creation_is_repeated_under_its_key(either: EitherClient, key: str | None) -> None:
    """After a lost answer it finds the webhook that the first one made, and another call makes another."""
    lost = CannedResponse(status=503, body={}, headers={"Retry-After": "0"})
    call = methodcaller("create_webhook", "https://a.b/", tenant="acme", key=key)
    with serving(lost, replace(answer("HookSecret"), status=201)) as api:
        await either.call(api.url, call)
        await either.call(api.url, call)
    assert {each.path for each in api.requests} == {"/v1/webhooks?tenant_id=acme"}
    keys = [each.headers["idempotency-key"] for each in api.requests]
    assert keys[0] == keys[1] != ""
    assert keys == [key] * 3 if key is not None else keys[2] != keys[0]


@pytest.mark.parametrize(
    ("words", "named", "request_", "printed"),
    [
        (
            ("create", "https://a.b/", "--type", "job.failed,job.canceled", "--label", "team:x", "--format", "slack"),
            "HookSecret",
            ("POST", "/v1/webhooks"),
            f"secret, shown only now: {SECRET}",
        ),
        (("list", "--tenant", "acme"), "HookPage", ("GET", "/v1/webhooks?tenant_id=acme"), "https://hooks.example.com"),
        (("show", HOOK), "HookDetail", ("GET", f"/v1/webhooks/{HOOK}"), "Oldest pending  2026-01-27T10:02:00Z ("),
        (("change", HOOK, "--off"), "HookDetail", ("PATCH", f"/v1/webhooks/{HOOK}"), HOOK),
        (("change", HOOK, "--every"), "HookDetail", ("PATCH", f"/v1/webhooks/{HOOK}"), HOOK),
        (("test", HOOK), "HookTest", ("POST", f"/v1/webhooks/{HOOK}:test"), "delivered: 204, 38 ms"),
        (("rotate", HOOK), "HookSecret", ("POST", f"/v1/webhooks/{HOOK}:rotate"), SECRET),
        (("resume", HOOK), "HookDetail", ("POST", f"/v1/webhooks/{HOOK}:resume"), HOOK),
        (("secret",), "DefaultSecret", ("GET", "/v1/webhooks/default/secret"), ANSWERS["DefaultSecret"]["secret"]),
        (
            ("deliveries", HOOK, "--state", "pending"),
            "DeliveryPage",
            ("GET", f"/v1/webhooks/{HOOK}/deliveries?state=PENDING&limit=50"),
            "503",
        ),
        (
            ("redeliver", HOOK, "1043"),
            "Delivery",
            ("POST", f"/v1/webhooks/{HOOK}/deliveries/1043:redeliver"),
            "job.failed",
        ),
        (("log", HOOK), "HookLog", ("GET", f"/v1/webhooks/{HOOK}/log"), "CREATED"),
    ],
)
def test_the_commands(words: tuple[str, ...], named: str, request_: tuple[str, str], printed: str) -> None:
    """Each command is one request, and prints the fields that an operator needs."""
    with serving(answer(named)) as api:
        completed = run_main("webhooks", *words, api=api.url)
    assert completed.returncode == 0, completed.stderr
    assert [sent(each)[:2] for each in api.requests] == [request_]
    assert printed in completed.stdout


def test_the_secret_of_callback_urls_can_be_shown_again() -> None:
    """`lucius webhook secret` shows it, unlike the secrets of other webhooks."""
    with serving(CannedResponse(body=ANSWERS["HookSecret"] | {"hookId": "default"})) as api:
        completed = run_main("webhooks", "rotate", "default", "--tenant", "acme", api=api.url)
    assert completed.stdout.splitlines()[-1] == f"secret: {SECRET}"


def test_the_filter_of_a_command() -> None:
    """The options become one filter; `--every` removes it."""
    with serving(answer("HookDetail")) as api:
        run_main("webhooks", "change", HOOK, "--type", "job.failed", "--label", "a:b:c", api=api.url)
        run_main("webhooks", "change", HOOK, "--every", "--on", api=api.url)
    bodies = [json.loads(each.body) for each in api.requests]
    assert bodies == [{"filter": {"types": ["job.failed"], "labels": {"a": "b:c"}}}, {"enabled": True, "filter": None}]


@pytest.mark.parametrize("words", [(), ("--every", "--type", "job.failed"), ("--label", "x")])
def test_a_change_of_nothing_is_wrong_usage(words: tuple[str, ...]) -> None:
    with serving(answer("HookDetail")) as api:
        assert run_main("webhooks", "change", HOOK, *words, api=api.url).returncode == 2
    assert api.requests == []


def test_a_test_that_is_not_taken_is_an_exit_code() -> None:
    """For scripts; with the class of the error for people."""
    body = {"delivered": False, "status": None, "error": "TIMEOUT", "took_ms": 10_000}
    with serving(CannedResponse(body=body)) as api:
        completed = run_main("webhooks", "test", HOOK, api=api.url)
    assert (completed.returncode, completed.stdout) == (1, "failed: TIMEOUT, 10000 ms\n")
