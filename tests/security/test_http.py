"""Rights over HTTP, on the app served with authentication on (docs/reference/access.md)."""

from __future__ import annotations

import base64
import json
import re
import subprocess
from typing import Any

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key

from shared.access.caller import Scope
from tests.document_commands import block
from tests.running_stack import ROOT
from tests.security.api_client import EVERY_SCOPE, A, B, Door, code
from tests.security.issuing import claims, signed, unsigned
from tests.security.routes import GUARDED, path_of
from tests.stack.scripted_service import ScriptedService
from tests.waiting import wait_until
from triggers.http.routes import Route


@pytest.mark.parametrize("route", GUARDED, ids=lambda route: route.function)
def test_every_route_asks_who_calls_and_what_for(door: Door, route: Route) -> None:
    """Without a token 401, with every scope but its own 403, each with the challenge and before the body is read."""
    none = door.ask(route.method, path_of(route), tenant=None, content=b"\xff" * 100)
    assert code(none) == (401, "TOKEN_MISSING")
    assert none.headers["WWW-Authenticate"] == 'Bearer realm="lucius"'
    others = " ".join(scope for scope in Scope if scope is not route.scope)
    wrong = door.ask(route.method, path_of(route), scope=others, content=b"\xff" * 100)
    assert code(wrong) == (403, "SCOPE_MISSING")
    assert f'scope="{route.scope}"' in wrong.headers["WWW-Authenticate"]


def test_forged_tokens_are_refused(door: Door) -> None:
    """Unsigned, signed by another key, changed: 401 with the error in the header."""
    issuer = door.stack.issuer
    [kid] = [key["kid"] for key in httpx.get(f"{issuer}/keys").json()["keys"]]
    stranger = generate_private_key(public_exponent=65537, key_size=2048)
    for token in (
        unsigned(claims(issuer), kid=kid),
        signed(claims(issuer), stranger, kid=kid),
        signed(claims(issuer), stranger, kid="mine"),
        door.token()[:-4] + "AAAA",
    ):
        refused = door.ask("GET", "/v1/jobs", tenant=None, headers={"Authorization": f"Bearer {token}"})
        assert code(refused) == (401, "TOKEN_INVALID")
        assert 'error="invalid_token"' in refused.headers["WWW-Authenticate"]


@pytest.mark.needs("curl")
def test_the_docs_commands(door: Door) -> None:
    """The commands in docs/reference/access.md: a token, a list, and the three refusals."""
    commands = (
        block(ROOT / "docs" / "reference" / "access.md", "tokens")
        .replace("http://127.0.0.1:7080", door.stack.issuer)
        .replace("http://127.0.0.1:7071", door.stack.api)
    )
    output = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", commands], capture_output=True, text=True, check=True
    ).stdout
    assert '"jobs": [' in output
    assert re.findall(r'"code": "(\w+)"', output) == ["TOKEN_MISSING", "SCOPE_MISSING", "TENANT_FORBIDDEN"]


def test_headers_of_the_platform_say_nothing(door: Door) -> None:
    """`X-MS-CLIENT-PRINCIPAL` can be forged: alone it gives no access, with a token it changes nothing."""
    principal = {"claims": [{"typ": "tenant_id", "val": A}, {"typ": "roles", "val": "orch:all-tenants"}]}
    forged = {
        "X-MS-CLIENT-PRINCIPAL": base64.b64encode(json.dumps(principal).encode()).decode(),
        "X-MS-CLIENT-PRINCIPAL-ID": "root",
        "X-MS-CLIENT-PRINCIPAL-NAME": "root",
        "X-MS-TOKEN-AAD-ACCESS-TOKEN": door.token(),
        "X-Forwarded-Authorization": f"Bearer {door.token()}",
    }
    assert door.ask("GET", "/v1/jobs", tenant=None, headers=forged).status_code == 401
    job_id = door.job()
    assert door.ask("GET", f"/v1/jobs/{job_id}", tenant=B, headers=forged).status_code == 404
    listed = door.ask("GET", "/v1/jobs", tenant=B, headers=forged)
    assert (listed.status_code, job_id in listed.text) == (200, False)


def test_who_read_what_is_in_the_log(door: Door) -> None:
    """One line per request, also of one that is refused; reads across tenants are marked."""
    job_id = door.job(doc_id="in the log")
    for tenant, request_id in (("*", "access-1"), (None, "access-2")):
        door.ask(
            "GET", f"/v1/jobs/{job_id}?subscription-key=s3cret", tenant=tenant, headers={"X-Correlation-Id": request_id}
        )
    wait_until(lambda: '"access-2"' in door.stack.log("host"), "the line is not in the log")
    found = re.findall(r'\{"event": "ACCESS".*?"access-\d".*?\}', door.stack.log("host"))
    reads, refused = (json.loads(line) for line in found)
    of_both = {"method": "GET", "route": "/v1/jobs/{jobId}", "jobId": job_id, "scope": "orch:read"}
    assert reads.items() >= {**of_both, "status": 200, "all_tenants": True}.items()
    assert reads["actor"] == "caller:local:operator (orch:all-tenants)"
    assert refused.items() >= {**of_both, "status": 401, "reason": "TOKEN_MISSING"}.items()
    assert "s3cret" not in door.stack.log("host")


def test_the_token_names_who_asked_not_the_body(door: Door) -> None:
    """`requested_by` and the actor of the first event are the token's subject."""
    job_id = door.job(requested_by="the.boss@example.com")
    assert door.get(f"/v1/jobs/{job_id}").json()["requested_by"] == f"caller:local:{A}"
    assert door.get(f"/v1/jobs/{job_id}/events").json()["events"][0]["actor"] == f"caller:local:{A}"


def test_a_callback_token_opens_its_attempt_only(door: Door, service: ScriptedService) -> None:
    """Bound to job, step, attempt and lease: no other job's, no route of the API; nor is a caller's token one."""
    mine, other = door.job(doc_id="callback 1"), door.job(doc_id="callback 2")
    first, second = service.directive(mine), service.directive(other)
    bearer = {"Authorization": f"Bearer {first['callback_urls']['token']}"}

    def call(path: str, headers: dict[str, str], body: dict[str, Any]) -> tuple[int, str]:
        answer = door.ask("POST", path, tenant=None, headers=headers, json=body)
        return answer.status_code, answer.json().get("code", "")

    for name in ("jobId", "lease_id"):
        assert call("/v1/callbacks/ack", bearer, {name: second[name]}) == (403, "NOT_YOUR_ATTEMPT")
    assert call(f"/v1/runs/{other}/heartbeat", bearer, {}) == (403, "NOT_YOUR_ATTEMPT")
    for change in ({"tenant_id": B}, {"attempt_no": 2}, {"stepId": "sis"}):
        assert call("/v1/callbacks/ack", bearer, change) == (403, "NOT_YOUR_ATTEMPT")
    assert door.ask("GET", f"/v1/jobs/{mine}", tenant=None, headers=bearer).status_code == 401
    own = {"Authorization": f"Bearer {door.token()}"}
    assert call("/v1/callbacks/ack", own, {}) == (401, "TOKEN_INVALID")
    assert door.get(f"/v1/jobs/{mine}").json()["steps"][0]["status"] == "INITIATED"
    assert call(f"/v1/runs/{mine}/heartbeat", bearer, {})[0] == 200
    assert door.get(f"/v1/jobs/{mine}").json()["steps"][0]["status"] == "PROCESSING"
    assert door.get(f"/v1/jobs/{other}").json()["steps"][0]["status"] == "INITIATED"


def test_without_the_issuer_known_keys_go_on(door: Door) -> None:
    """The issuer is suspended: tokens of known keys pass; a token under an unknown key is not called wrong."""
    issuer = door.stack.issuer
    token = door.token(scope=EVERY_SCOPE)
    door.stack.pause("issuer")
    try:
        assert door.ask("GET", "/v1/jobs", tenant=None, headers={"Authorization": f"Bearer {token}"}).is_success
        stranger = generate_private_key(public_exponent=65537, key_size=2048)
        headers = {"Authorization": f"Bearer {signed(claims(issuer), stranger, kid='new')}"}
        answer = door.ask("GET", "/v1/jobs", tenant=None, headers=headers)
        if answer.status_code == 503:
            assert answer.headers["Retry-After"]
        else:
            # fetched less than a cooldown ago: the key is known not to be there
            assert code(answer) == (401, "TOKEN_INVALID")
    finally:
        door.stack.resume("issuer")


def test_readiness_shows_no_counts_without_a_token_of_all_tenants(door: Door) -> None:
    """Probes have none; jobs by state are those of all tenants."""
    door.job(doc_id="ready")
    assert door.ask("POST", "/v1/admin/reconcile", tenant="*").status_code == 200

    def work(**more: Any) -> Any:
        answer = door.ask("GET", "/v1/health/ready", **more)
        assert (answer.status_code, answer.json()["status"]) == (200, "ready")
        return answer.json()["sweeper"]["work"]

    # each process reads the mark of a sweep at most every two seconds
    wait_until(lambda: work(tenant="*") is not None, "an operator sees no counts")
    assert [work(tenant=tenant) for tenant in (None, A)] == [None, None]
    assert work(tenant=None, headers={"Authorization": "Bearer x.y.z"}) is None
    assert work(tenant="*", scope="orch:quota") is None
