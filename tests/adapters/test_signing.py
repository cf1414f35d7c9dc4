"""Signers: OpenSSL verifies their signatures, and a fault of a key or a vault stops signing only."""

from __future__ import annotations

import base64
import hashlib
import json
import subprocess
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from azure.core.credentials import AccessToken
from cryptography.hazmat.primitives.asymmetric.ec import (
    ECDSA,
    SECP256R1,
    SECP384R1,
    EllipticCurvePrivateKey,
    generate_private_key,
)
from cryptography.hazmat.primitives.asymmetric.utils import Prehashed, decode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from shared.adapters.signing import REFRESH_S, KeyVaultSigner, PemSigner
from shared.core.audit.statements import is_signed
from shared.errors import KeyUnavailable
from shared.ports.signing import Signer
from tests.worlds.audit import write_key

MESSAGE = b"DSSEv1 2 xx 1 y"


def openssl(folder: Path, *arguments: str) -> bytes:
    """The output of a command that succeeds."""
    return subprocess.run(["openssl", *arguments], cwd=folder, capture_output=True, check=True).stdout


async def openssl_verifies(signer: Signer, folder: Path) -> None:
    """The signature and the PEM file, as docs/guides/audit.md verifies them."""
    key = await signer.public_key()
    signature = await signer.sign(key, MESSAGE)
    for name, content in (("key.pem", key.pem.encode()), ("message", MESSAGE), ("signature", signature)):
        (folder / name).write_bytes(content)
    verify = ("dgst", "-sha256", "-verify", "key.pem", "-signature", "signature", "message")
    assert openssl(folder, *verify) == b"Verified OK\n"
    der = openssl(folder, "pkey", "-pubin", "-in", "key.pem", "-outform", "DER")
    assert hashlib.sha256(der).hexdigest() == key.key_id
    assert is_signed(key.pem, MESSAGE, signature)
    assert not is_signed(key.pem, MESSAGE + b"x", signature)


async def test_a_pem_file(tmp_path: Path) -> None:
    """As `openssl` makes it; a new one is in effect at once."""
    path = tmp_path / "audit.pem"
    openssl(tmp_path, "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", path.name)
    signer = PemSigner(path)
    await openssl_verifies(signer, tmp_path)
    old = await signer.public_key()
    write_key(path)
    assert (await signer.public_key()).key_id != old.key_id
    with pytest.raises(KeyUnavailable, match="no longer has the key"):
        await signer.sign(old, MESSAGE)


@pytest.mark.parametrize("content", [None, b"", b"secret text", "another curve"])
async def test_a_file_that_is_no_key(tmp_path: Path, content: bytes | str | None) -> None:
    """The error names the file and repeats nothing of it."""
    path = tmp_path / "audit.pem"
    if content == "another curve":
        key = generate_private_key(SECP384R1())
        content = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    if isinstance(content, bytes):
        path.write_bytes(content)
    with pytest.raises(KeyUnavailable, match=str(path)) as refused:
        await PemSigner(path).public_key()
    assert "secret" not in str(refused.value)


@dataclass
class Vault:
    """Key Vault's REST API for one key, as far as LUCIUS uses it (API version 7.4)."""

    versions: list[EllipticCurvePrivateKey] = field(default_factory=lambda: [generate_private_key(SECP256R1())])
    #: the answer instead of the real one
    answer: web.Response | None = None
    host: str = ""
    calls: list[str] = field(default_factory=list)

    async def serve(self, request: web.Request) -> web.Response:
        self.calls.append(f"{request.method} {request.path}")
        assert request.headers["Authorization"] == "Bearer token"
        assert request.query["api-version"] == "7.4"
        if self.answer is not None:
            return self.answer
        if request.method == "GET":
            numbers = self.versions[-1].public_key().public_numbers()
            x, y = (_url64(number.to_bytes(32)) for number in (numbers.x, numbers.y))
            kid = f"{self.host}/keys/audit/{len(self.versions)}"
            return web.json_response({"key": {"kid": kid, "kty": "EC", "crv": "P-256", "x": x, "y": y}})
        *_, version, action = request.path.split("/")
        body: dict[str, str] = await request.json()
        assert (action, body["alg"]) == ("sign", "ES256")
        digest = base64.urlsafe_b64decode(body["value"] + "=")
        pair = decode_dss_signature(self.versions[int(version) - 1].sign(digest, ECDSA(Prehashed(SHA256()))))
        return web.json_response({"value": _url64(b"".join(number.to_bytes(32) for number in pair))})


def _url64(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


class Identity:
    """See `azure.core.credentials_async.AsyncTokenCredential`."""

    async def get_token(self, *scopes: str, **_: Any) -> AccessToken:
        assert scopes == ("https://vault.azure.net/.default",)
        return AccessToken("token", 2**31)

    async def close(self) -> None: ...

    async def __aenter__(self) -> Identity:
        return self

    async def __aexit__(self, *_: object) -> None: ...


@pytest.fixture
async def vault() -> AsyncIterator[Vault]:
    found = Vault()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", found.serve)
    async with TestServer(app) as server:
        found.host = str(server.make_url("")).rstrip("/")
        yield found


async def test_a_key_of_key_vault(vault: Vault, tmp_path: Path) -> None:
    """r || s becomes DER; the key is read once an hour, and a new version signs then."""
    now = 0.0
    signer = KeyVaultSigner(f"{vault.host}/keys/audit", Identity(), lambda: now)
    for _ in range(20):
        # leading zeros of r and s
        await signer.sign(await signer.public_key(), MESSAGE)
    await openssl_verifies(signer, tmp_path)
    assert vault.calls.count("GET /keys/audit") == 1
    old = await signer.public_key()
    vault.versions.append(generate_private_key(SECP256R1()))
    assert await signer.public_key() == old
    now = REFRESH_S
    assert await signer.public_key() != old
    await openssl_verifies(signer, tmp_path)
    # a signature that began with the old version uses it
    assert is_signed(old.pem, MESSAGE, await signer.sign(old, MESSAGE))


@pytest.mark.parametrize(
    "answer",
    [
        web.Response(status=403, text="{}"),
        web.Response(status=302, headers={"Location": "http://127.0.0.1:1/"}),
        web.Response(text="no json"),
        web.Response(text="[]", content_type="application/json"),
        web.Response(text=json.dumps({"key": {"kty": "RSA", "crv": "P-256"}})),
        web.Response(
            text=json.dumps(
                {"key": {"kid": "http://other/keys/audit/1", "kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"}}
            )
        ),
    ],
    ids=["forbidden", "redirect", "no JSON", "no object", "RSA", "not on the curve"],
)
async def test_a_vault_that_gives_no_key(vault: Vault, answer: web.Response) -> None:
    vault.answer = answer
    with pytest.raises(KeyUnavailable):
        await KeyVaultSigner(f"{vault.host}/keys/audit", Identity()).public_key()


async def test_the_token_goes_to_no_other_vault(vault: Vault) -> None:
    """The answer names the version that signs: one at another host is refused before anything is sent there."""
    url, vault.host = f"{vault.host}/keys/audit", "http://other.invalid"
    with pytest.raises(KeyUnavailable, match="not a version of the configured key"):
        await KeyVaultSigner(url, Identity()).public_key()


@pytest.mark.parametrize("value", ["AAAA", "", 5, None])
async def test_a_vault_that_gives_no_signature(vault: Vault, value: object) -> None:
    signer = KeyVaultSigner(f"{vault.host}/keys/audit", Identity())
    key = await signer.public_key()
    vault.answer = web.json_response({"value": value})
    with pytest.raises(KeyUnavailable):
        await signer.sign(key, MESSAGE)
    vault.answer = web.Response(status=429)
    with pytest.raises(KeyUnavailable, match="429"):
        await signer.sign(key, MESSAGE)
