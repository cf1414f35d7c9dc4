"""The app's own check of tokens, against keys that come over HTTP from the local issuer."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jwt
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from jwt.algorithms import RSAAlgorithm

from emulator.issuer.key_file import KeyFile
from shared.access.caller import Caller, Scope
from shared.access.tenants import TenantRules
from shared.adapters.callers import LEEWAY_S, JwtCallers
from shared.adapters.jwt_keys import COOLDOWN_S, REFRESH_S, RETRY_S, STALE_S, JwtKeys
from shared.errors import KeysUnavailable
from shared.refusals import Refused, TokenInvalid, TokenMissing
from tests.security.issuing import AUDIENCE, claims, encoded, hmac_signed, part, signed, unsigned

ISSUER = "https://issuer.example"


@dataclass
class World:
    """An issuer that can be unreachable, and the app's check, whose clock for keys the test advances."""

    issuer: KeyFile
    keys: JwtKeys = field(init=False)
    callers: JwtCallers = field(init=False)
    now: float = 1000.0
    fetches: int = 0
    #: response of the issuer instead, as arguments of a response
    instead: dict[str, Any] | None = None

    def begin(self, url: str) -> None:
        self.keys = JwtKeys(url, lambda: self.now)
        self.callers = JwtCallers(
            self.keys,
            issuer=ISSUER,
            audiences=(AUDIENCE, "other"),
            tenants=TenantRules(claim="tenant_id"),
            all_tenants_role="orch:all-tenants",
        )

    def token(self, header: dict[str, Any] | None = None, **changes: Any) -> str:
        kid, key = self.issuer.signing
        return signed(claims(ISSUER, **changes), key, **{"kid": kid, **(header or {})})

    async def caller(self, token: str) -> Caller:
        return await self.callers.caller(f"Bearer {token}")

    async def refused(self, authorization: str | None) -> Refused:
        with pytest.raises(Refused) as refused:
            await self.callers.caller(authorization)
        return refused.value


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    world = World(KeyFile(tmp_path))

    async def keys(request: web.Request) -> web.Response:
        world.fetches += 1
        return web.Response(**world.instead) if world.instead else web.json_response(world.issuer.jwks())

    app = web.Application()
    app.router.add_get("/keys", keys)
    async with TestServer(app) as server:
        world.begin(str(server.make_url("/keys")))
        yield world


async def test_a_good_token_is_a_caller(world: World) -> None:
    """Scopes, tenant and actor come from the token; the keys are fetched once for all concurrent requests."""
    callers = await asyncio.gather(*(world.caller(world.token()) for _ in range(20)))
    assert callers[0] == Caller(actor="caller:alice", scopes=frozenset(Scope), tenant="tenant_a")
    assert set(callers) == {callers[0]}
    assert world.fetches == 1


async def test_without_a_token_the_challenge_has_no_error(world: World) -> None:
    """RFC 6750 3.1: without credentials the challenge has no error code."""
    refused = await world.refused(None)
    assert isinstance(refused, TokenMissing)


@pytest.mark.parametrize(
    "header",
    [
        "Basic YWxpY2U6c2VjcmV0",
        "Bearer",
        "Bearer  ",
        "Bearer a b",
        "Bearer a,b",
        'Bearer "x"',
        "Bearer ü",
        "bearer x",
        "Bearer a.b.c",
        "Bearer ..",
        "Bearer " + "a" * 20_000,
        f"Bearer {part({'alg': 'RS256', 'kid': 'x'})}.{encoded(b'[' * 9000)}.AAAA",
        f"Bearer {encoded(b'[' * 9000)}.e30.AAAA",
        f"Bearer {encoded(b'null')}.e30.AAAA",
        f"Bearer {encoded(bytes(range(256)))}.e30.AAAA",
    ],
)
async def test_what_is_no_token_is_401(world: World, header: str) -> None:
    """Any text, of any length or depth, is refused in the same way and never raises another error."""
    refused = await world.refused(header)
    assert isinstance(refused, TokenInvalid)


async def test_alg_none_is_refused(world: World) -> None:
    """A token without a signature is refused, in any spelling of the word."""
    kid, _ = world.issuer.signing
    for word in ("none", "None", "NONE", "nOnE", ""):
        refused = await world.refused("Bearer " + unsigned(claims(ISSUER), kid=kid, alg=word))
        assert "signed by RS256" in str(refused)


async def test_the_public_key_is_no_secret(world: World) -> None:
    """Key confusion: HS256 with the published key as its secret is refused, also where the header names RS256."""
    kid, key = world.issuer.signing
    public = key.public_key()
    for form in (
        public.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo),
        public.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.PKCS1),
        public.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo),
    ):
        for alg in ("HS256", "RS256"):
            await world.refused("Bearer " + hmac_signed(claims(ISSUER), form, kid=kid, alg=alg))


@pytest.mark.parametrize("alg", ["RS384", "RS512", "PS256"])
async def test_the_token_does_not_choose_the_algorithm(world: World, alg: str) -> None:
    """Even a good signature of the right key by another algorithm is refused: one is pinned."""
    kid, key = world.issuer.signing
    await world.refused("Bearer " + jwt.encode(claims(ISSUER), key, algorithm=alg, headers={"kid": kid}))


async def test_a_key_in_the_token_is_not_used(world: World) -> None:
    """`jwk`, `jku`, `x5u` and a path in `kid` point at the attacker's key: nothing is fetched and nothing passes."""
    own = KeyFile(Path(str(world.issuer._path) + ".attacker"))
    kid, key = own.signing
    [public] = own.jwks()["keys"]
    await world.caller(world.token())
    real, _ = world.issuer.signing
    for header in (
        {"kid": real, "jwk": public},
        {"kid": real, "jku": "http://127.0.0.1:1/keys", "x5u": "http://127.0.0.1:1/cert"},
        {"kid": kid, "jwk": public},
        {"kid": "../../etc/passwd"},
        {"kid": "' or 1 eq 1"},
    ):
        await world.refused("Bearer " + signed(claims(ISSUER), key, **header))
    assert world.fetches == 1


async def test_an_unknown_critical_header_is_refused(world: World) -> None:
    """RFC 7515 4.1.11: a critical header that is not understood invalidates the token."""
    await world.refused("Bearer " + world.token({"crit": ["exp-policy"], "exp-policy": "x"}))


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"iss": "https://other.example"}, "another issuer"),
        ({"iss": ISSUER + "/"}, "another issuer"),
        ({"iss": None}, "lacks exp, iss, aud or sub"),
        ({"iss": [ISSUER]}, "from another issuer"),
        ({"aud": "api://somebody"}, "another audience"),
        ({"aud": None}, "lacks exp, iss, aud or sub"),
        ({"aud": []}, "lacks exp, iss, aud or sub"),
        ({"aud": {"api://lucius": 1}}, "another audience"),
        ({"exp": int(time.time()) - LEEWAY_S - 5}, "expired"),
        ({"exp": None}, "lacks exp, iss, aud or sub"),
        ({"exp": "tomorrow"}, "cannot be read"),
        ({"nbf": int(time.time()) + LEEWAY_S + 86_400}, "not valid yet"),
        ({"iat": int(time.time()) + LEEWAY_S + 86_400}, "not valid yet"),
        ({"exp": int(time.time()) + 37 * 3600}, "valid for more than 36 hours"),
        ({"exp": 1e300}, "valid for more than 36 hours"),
        ({"exp": str(int(time.time()) + 37 * 3600)}, "valid for more than 36 hours"),
        ({"cnf": {"jkt": "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I"}}, "cnf binds a token to a key"),
        ({"nonce": "n-0S6_WzA2Mj"}, "an ID token"),
        ({"sub": None}, "lacks exp, iss, aud or sub"),
        ({"sub": 7}, "lacks exp, iss, aud or sub"),
    ],
)
async def test_every_claim_counts(world: World, changes: dict[str, Any], why: str) -> None:
    """A good signature is not enough: issuer, audience, times and subject are there and right."""
    refused = await world.refused("Bearer " + world.token(**changes))
    assert why in str(refused)


@pytest.mark.parametrize("typ", ["JWT", "jwt", "at+jwt", "application/at+jwt", None])
async def test_an_access_token_by_its_type(world: World, typ: str | None) -> None:
    """RFC 9068 2.1, and the types of earlier issuers; its scopes may be in `scope`."""
    caller = await world.caller(
        world.token({"typ": typ} if typ else {}, scp=None, roles=None, scope="openid orch:read")
    )
    assert caller.scopes == {Scope.READ}


@pytest.mark.parametrize("typ", ["logout+jwt", "dpop+jwt", "id+jwt", "secevent+jwt", "x"])
async def test_a_token_of_another_type_is_refused(world: World, typ: str) -> None:
    """RFC 8725 3.11: a token that was signed for another purpose is not valid for the API."""
    assert "not an access token" in str(await world.refused("Bearer " + world.token({"typ": typ})))


async def test_clocks_may_differ_a_little(world: World) -> None:
    """A token that expired within the leeway is still good; one of several audiences is enough."""
    now = int(time.time())
    await world.caller(world.token(exp=now - LEEWAY_S + 30, nbf=now + LEEWAY_S - 30))
    await world.caller(world.token(aud=["somebody", "other"]))


async def test_another_issuers_key_is_refused(world: World, tmp_path: Path) -> None:
    """A correct signature by another key, under the issuer's key id."""
    kid, _ = world.issuer.signing
    stranger = generate_private_key(public_exponent=65537, key_size=2048)
    refused = await world.refused("Bearer " + signed(claims(ISSUER), stranger, kid=kid))
    assert "signature" in str(refused)


async def test_a_token_without_a_key_id_is_refused(world: World) -> None:
    """The issuer's keys are not tried one by one."""
    _, key = world.issuer.signing
    await world.refused("Bearer " + signed(claims(ISSUER), key))
    await world.refused("Bearer " + signed(claims(ISSUER), key, kid="x" * 300))
    assert world.fetches == 0


async def test_the_claims_cannot_be_changed(world: World) -> None:
    """Another tenant put into a signed token breaks its signature."""
    head, _, signature = world.token().split(".")
    changed = claims(ISSUER, tenant_id="tenant_b")
    await world.refused(f"Bearer {head}.{part(changed)}.{signature}")


async def test_a_new_key_is_found(world: World) -> None:
    """Rotation: an unknown key id has the keys fetched again; tokens of the key before stay good."""
    before = world.token()
    await world.caller(before)
    world.issuer.rotate()
    world.now += COOLDOWN_S
    assert (await world.caller(world.token())).tenant == "tenant_a"
    assert (await world.caller(before)).tenant == "tenant_a"
    assert world.fetches == 2


async def test_a_flood_of_unknown_keys_costs_the_issuer_nothing(world: World) -> None:
    """For any number of invented key ids the keys are fetched once a cool-down; valid tokens pass meanwhile."""
    good = world.token()
    await world.caller(good)
    world.now += COOLDOWN_S
    key = generate_private_key(public_exponent=65537, key_size=2048)
    tokens = [signed(claims(ISSUER), key, kid=f"made-up-{number}") for number in range(50)]
    refusals = await asyncio.gather(*(world.refused(f"Bearer {token}") for token in tokens))
    assert {type(refusal) for refusal in refusals} == {TokenInvalid}
    assert (await world.caller(good)).tenant == "tenant_a"
    assert world.fetches == 2


async def test_without_the_issuer_there_is_no_telling(world: World) -> None:
    """No key yet and no answer: 503 and not 401, tried again after a pause; then the same token is good."""
    world.instead = {"status": 500}
    token = world.token()
    for _ in range(5):
        with pytest.raises(KeysUnavailable):
            await world.caller(token)
    assert world.fetches == 1
    world.instead = None
    world.now += RETRY_S
    assert (await world.caller(token)).tenant == "tenant_a"


async def test_an_issuer_that_is_away_stops_nobody_known(world: World) -> None:
    """The last keys stay good while it is away, a day long and no longer; a key that may be new is 503."""
    token = world.token()
    await world.caller(token)
    world.instead = {"status": 503}
    world.now += REFRESH_S
    assert (await world.caller(token)).tenant == "tenant_a"
    world.issuer.rotate()
    with pytest.raises(KeysUnavailable):
        await world.caller(world.token())
    world.now += STALE_S
    with pytest.raises(KeysUnavailable):
        await world.caller(token)


async def test_a_withdrawn_key_ends(world: World) -> None:
    """A key that the issuer no longer publishes is refused after the next fetch."""
    token = world.token()
    await world.caller(token)
    for _ in range(3):
        world.issuer.rotate()
    world.now += REFRESH_S
    refused = await world.refused(f"Bearer {token}")
    assert "not signed by a key of the issuer" in str(refused)


@pytest.mark.parametrize(
    "instead",
    [
        {"body": b"<html>"},
        {"body": b"[]"},
        {"body": b'{"keys": 5}'},
        {"body": b'{"keys": [{"kty": "RSA", "kid": "x", "n": "AQAB", "e": "!"}]}'},
        {"body": b'{"keys": [{"kty": "oct", "kid": "x", "k": "c2VjcmV0"}]}'},
        {"body": b"[" * 100_000},
        {"body": b" " * 300_000},
        {"status": 302, "headers": {"Location": "/keys"}},
    ],
)
async def test_what_is_no_key_set_is_not_taken(world: World, instead: dict[str, Any]) -> None:
    """Another document, keys of another kind, too much, or somewhere else: as if the issuer were away."""
    world.instead = instead
    with pytest.raises(KeysUnavailable):
        await world.caller(world.token())
    assert world.fetches == 1


@pytest.mark.filterwarnings("ignore::jwt.warnings.InsecureKeyLengthWarning")
async def test_short_keys_are_refused(world: World) -> None:
    """A published RSA key of 1024 bits signs nothing here."""
    weak = generate_private_key(public_exponent=65537, key_size=1024)
    public = json.loads(RSAAlgorithm.to_jwk(weak.public_key()))
    world.instead = {"text": json.dumps({"keys": [{**public, "kid": "weak", "use": "sig"}]})}
    await world.refused("Bearer " + signed(claims(ISSUER), weak, kid="weak"))


async def test_a_refusal_names_key_and_issuer_escaped_and_shortened(world: World) -> None:
    """Any sender can write a token: its part in a log is short, and cannot look like a log line."""
    kid, issuer = 'k"\n{"event": "FORGED"}\x1b[2J\u202e', "https://evil.example/" + "a" * 5000
    refused = await world.refused(f"Bearer {world.token({'kid': kid}, iss=issuer)}")
    assert isinstance(refused, TokenInvalid)
    assert refused.named == {"kid": 'k"?{"event": "FORGED"}?[2J?', "iss": issuer[:100]}
    none = await world.refused("Bearer a.b.c")
    assert isinstance(none, TokenInvalid)
    assert none.named == {}
    number = await world.refused(f"Bearer {world.token({'kid': 'x' * 300}, iss=5)}")
    assert isinstance(number, TokenInvalid)
    assert number.named == {"kid": "x" * 100}
