"""Sign-in at the local issuer: authorization code with PKCE, in this process and with a clock that the tests set."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import jwt
import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from emulator.issuer.authorization import CODE_LIFETIME_S, DISCOVERY, allow_sign_in_pages
from emulator.issuer.key_file import KeyFile
from emulator.issuer.page import ROLES, SCOPES
from emulator.issuer.program import Issuer
from shared.access.caller import Scope

APP = "http://127.0.0.1:7071"
#: RFC 7636, appendix B
VERIFIER = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
REQUEST = {
    "client_id": "page",
    "redirect_uri": f"{APP}/v1/dashboard",
    "response_type": "code",
    "response_mode": "fragment",
    "state": "s-1",
    "nonce": "n-1",
    "scope": "openid api://lucius/.default",
    "code_challenge": "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM",
    "code_challenge_method": "S256",
}
CHOICE = {"tenant": "tenant_a", "granted_scope": "orch:read", "role": "orch:admin", "expires_in": "120"}
REDEMPTION = {
    "grant_type": "authorization_code",
    "client_id": "page",
    "redirect_uri": f"{APP}/v1/dashboard",
    "code_verifier": VERIFIER,
}
Client = TestClient[web.Request, web.Application]


class Clock:
    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> KeyFile:
    folder: Path = tmp_path_factory.mktemp("keys")
    return KeyFile(folder)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def client(keys: KeyFile, clock: Clock) -> AsyncIterator[Client]:
    issuer = Issuer(keys, audience="api://lucius", tenant_claim="tenant_id", clock=clock)
    application = issuer.application()
    application.middlewares.insert(0, allow_sign_in_pages())
    async with TestClient(TestServer(application)) as opened:
        issuer.set_url(str(opened.make_url("")).rstrip("/"))
        yield opened


async def returned(client: Client, form: dict[str, str]) -> dict[str, str]:
    """The parameters with which the page's form leads back to the application."""
    async with client.post("/authorize", data=form, allow_redirects=False) as response:
        assert response.status == 303
        address = urlsplit(response.headers["Location"])
    assert f"{address.scheme}://{address.netloc}{address.path}" == REQUEST["redirect_uri"]
    return {name: value for name, (value,) in parse_qs(address.fragment or address.query).items()}


async def code_of(client: Client, **changes: str) -> str:
    return (await returned(client, {**REQUEST, **CHOICE, **changes}))["code"]


async def redeemed(client: Client, code: str, **changes: str) -> tuple[int, dict[str, Any]]:
    async with client.post("/token", data={**REDEMPTION, "code": code, **changes}) as response:
        return response.status, await response.json()


def claims(token: str) -> dict[str, Any]:
    return dict(jwt.decode(token, options={"verify_signature": False}))


async def test_a_developer_chooses_tenant_scopes_and_roles(client: Client) -> None:
    """The discovery document leads to the page, the page to a code, the code to two tokens."""
    document = await (await client.get(DISCOVERY)).json()
    async with client.get(urlsplit(document["authorization_endpoint"]).path, params=REQUEST) as shown:
        page = await shown.text()
    assert (shown.status, page.count("checked")) == (200, len(SCOPES))
    back = await returned(client, {**REQUEST, **CHOICE})
    assert (back["state"], back["iss"]) == ("s-1", document["issuer"])
    status, tokens = await redeemed(client, back["code"])
    assert (status, tokens["token_type"], tokens["expires_in"], tokens["scope"]) == (200, "Bearer", 120, "orch:read")
    access = claims(tokens["access_token"])
    assert (access["tenant_id"], access["scp"], access["roles"]) == ("tenant_a", "orch:read", ["orch:admin"])
    assert (access["aud"], access["exp"] - access["iat"]) == ("api://lucius", 120)
    assert "nonce" not in access, "the app refuses ID tokens by their nonce"
    identity = claims(tokens["id_token"])
    assert (identity["aud"], identity["nonce"], identity["iss"]) == ("page", "n-1", document["issuer"])


async def test_the_page_offers_the_scopes_of_the_api() -> None:
    assert {*SCOPES, *ROLES} >= set(Scope)


async def test_only_requested_scopes_are_chosen_beforehand(client: Client) -> None:
    async with client.get("/authorize", params={**REQUEST, "scope": "openid orch:quota"}) as shown:
        assert re.findall(r'value="([^"]+)" checked', await shown.text()) == ["orch:quota"]


@pytest.mark.parametrize(
    "changes",
    [
        {"redirect_uri": "https://evil.example/v1/dashboard"},
        {"redirect_uri": "http://127.0.0.1.evil.example/"},
        {"redirect_uri": "http://127.0.0.1@evil.example/"},
        {"redirect_uri": "http://localhost/#x"},
        {"redirect_uri": "javascript://127.0.0.1/%0aalert(1)"},
        {"redirect_uri": "http://["},
        {"client_id": ""},
    ],
)
async def test_no_code_leaves_this_machine(client: Client, changes: dict[str, str]) -> None:
    """400 and a page with the reason, for the request and for the form; never a redirect."""
    for response in (
        await client.get("/authorize", params={**REQUEST, **changes}, allow_redirects=False),
        await client.post("/authorize", data={**REQUEST, **CHOICE, **changes}, allow_redirects=False),
    ):
        assert response.status == 400
        assert "not possible" in await response.text()


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"response_type": "token"}, "unsupported_response_type"),
        ({"code_challenge": ""}, "invalid_request"),
        ({"code_challenge_method": "plain"}, "invalid_request"),
        ({"response_mode": "form_post"}, "invalid_request"),
        ({"prompt": "none"}, "login_required"),
        ({"deny": "yes"}, "access_denied"),
    ],
)
async def test_an_error_leads_back_to_the_page(client: Client, changes: dict[str, str], error: str) -> None:
    back = await returned(client, {**REQUEST, **CHOICE, **changes})
    assert (back["error"], back["state"]) == (error, "s-1")
    assert "code" not in back


async def test_a_code_is_good_once(client: Client) -> None:
    code = await code_of(client)
    assert (await redeemed(client, code))[0] == 200
    status, body = await redeemed(client, code)
    assert (status, body["error"]) == (400, "invalid_grant")


@pytest.mark.parametrize(
    "changes",
    [
        {"code_verifier": VERIFIER[:-1] + "K"},
        {"code_verifier": ""},
        {"client_id": "another"},
        {"redirect_uri": f"{APP}/v1/other"},
    ],
)
async def test_a_stolen_code_is_worth_nothing(client: Client, changes: dict[str, str]) -> None:
    """Another verifier, client or address: 400, and the code is gone for its owner too."""
    code = await code_of(client)
    assert (await redeemed(client, code, **changes))[1]["error"] == "invalid_grant"
    assert (await redeemed(client, code))[0] == 400


async def test_a_code_ends_after_a_minute(client: Client, clock: Clock) -> None:
    late, in_time = await code_of(client), await code_of(client)
    clock.now += CODE_LIFETIME_S - 1
    assert (await redeemed(client, in_time))[0] == 200
    clock.now += 1
    assert (await redeemed(client, late))[1]["error"] == "invalid_grant"


async def test_the_choice_is_checked(client: Client) -> None:
    """An invalid lifetime, and a caller of no tenant without a role."""
    for wrong in ({"expires_in": "0"}, {"tenant": "", "role": ""}):
        async with client.post("/authorize", data={**REQUEST, **CHOICE, **wrong}, allow_redirects=False) as response:
            assert response.status == 400


async def test_text_of_the_request_is_text_on_the_page(client: Client) -> None:
    """And parameters of the form cannot be smuggled in by the request."""
    hostile = '"><script>alert(1)</script>'
    async with client.get("/authorize", params={**REQUEST, "state": hostile, "role": "orch:admin"}) as shown:
        page = await shown.text()
    assert "<script>" not in page
    assert re.findall(r'type="hidden" name="(\w+)"', page) == list(REQUEST)


async def test_pages_of_this_machine_redeem_codes_and_nothing_else(client: Client) -> None:
    """Another port is another origin: it may read the discovery document and the answer to its code."""
    origin = {"Origin": APP}
    document = await client.get(DISCOVERY, headers=origin)
    answer = await client.post("/token", data={**REDEMPTION, "code": await code_of(client)}, headers=origin)
    for allowed in (document, answer):
        assert (allowed.status, allowed.headers["Access-Control-Allow-Origin"]) == (200, APP)
    for method, path, form in (
        ("POST", "/token", {"grant_type": "client_credentials", "tenant": "a"}),
        ("POST", "/authorize", {**REQUEST, **CHOICE}),
        ("POST", "/rotate", {}),
        ("GET", "/keys", {}),
    ):
        async with client.request(method, path, data=form or None, headers=origin) as refused:
            assert (refused.status, "Access-Control-Allow-Origin" in refused.headers) == (403, False), path
    for foreign in ("https://evil.example", "null"):
        assert (await client.get(DISCOVERY, headers={"Origin": foreign})).status == 403
    rebound = {"Origin": APP, "Host": "evil.example"}
    assert (await client.get(DISCOVERY, headers=rebound)).status == 403
