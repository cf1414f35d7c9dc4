"""Secrets and signatures of webhooks; the official package of Standard Webhooks is the judge (R87)."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from standardwebhooks import Webhook, WebhookVerificationError

from shared.access.webhook_signature import secrets_of, shown, signed_headers
from shared.core.webhooks.webhooks import Hook, SecretVersion
from shared.webhook_refusals import HookKeyGone
from tests.jobs import START

OLD, NEW = ("k1", b"1" * 32), ("k2", b"2" * 40)
HOOK = Hook(
    id="hook_1",
    tenant="größe gmbh",
    url="https://hooks.example.com/",
    created_at=START,
    created_by="user:ann",
    updated_at=START,
    first=1,
    secret=SecretVersion(version=1, key_id="k1", salt="5a17"),
)
#: rotated: both sign for a day
ROTATED = replace(
    HOOK,
    secret=SecretVersion(version=2, key_id="k2", salt="5a17"),
    previous=HOOK.secret,
    previous_until=START + timedelta(days=1),
)
BODY = '{"type":"job.completed","note":"é"}'.encode()


def test_a_secret_is_derived_as_rfc_5869_has_it() -> None:
    """HKDF-SHA256 of the key, over the identity of the secret."""
    info = "lucius webhook\0prod\0größe gmbh\0hook_1\x001\x005a17".encode()
    assert secrets_of([OLD], HOOK, START, deployment="prod") == [
        HKDF(SHA256(), 32, salt=None, info=info).derive(OLD[1])
    ]


def test_no_two_hooks_tenants_versions_keys_or_deployments_share_a_secret() -> None:
    """A secret of one endpoint reveals nothing about another's."""
    hooks = [
        HOOK,
        replace(HOOK, id="hook_2"),
        replace(HOOK, tenant="b"),
        replace(HOOK, secret=SecretVersion(version=2, key_id="k1", salt="5a17")),
        replace(HOOK, secret=SecretVersion(version=1, key_id="k2", salt="5a17")),
        # removed, and made again under its Idempotency-Key
        replace(HOOK, secret=SecretVersion(version=1, key_id="k1", salt="5a18")),
    ]
    found = {secrets_of([OLD, NEW], each, START, deployment=name)[0] for each in hooks for name in ("prod", "dev")}
    assert len(found) == 2 * len(hooks)


def test_a_rotated_secret_and_the_one_before_sign_until_its_time_is_over() -> None:
    """Newest first; from the last instant on only the new one."""
    keys, end = [NEW, OLD], START + timedelta(days=1)
    [before] = secrets_of(keys, HOOK, START, deployment="prod")
    assert secrets_of(keys, ROTATED, end - timedelta(microseconds=1), deployment="prod")[1] == before
    assert len(secrets_of(keys, ROTATED, end, deployment="prod")) == 1


def test_a_key_that_is_gone_takes_its_secrets_along() -> None:
    """The newest secret without its key is an error, the one before is left out."""
    assert len(secrets_of([NEW], ROTATED, START, deployment="prod")) == 1
    with pytest.raises(HookKeyGone):
        secrets_of([OLD], ROTATED, START, deployment="prod")
    with pytest.raises(HookKeyGone):
        secrets_of([], HOOK, START, deployment="prod")


def test_receivers_verify_with_either_secret_while_both_sign() -> None:
    """By the official package, with the secret as it is shown; another body, id or secret is refused."""
    now = datetime.now(UTC)
    rotated = replace(ROTATED, previous_until=now + timedelta(hours=1))
    secrets = secrets_of([NEW, OLD], rotated, now, deployment="prod")
    headers = signed_headers("job_1:4:0:hook_1", BODY, secrets, now)
    assert headers["webhook-id"] == "job_1:4:0:hook_1"
    for secret in secrets:
        assert Webhook(shown(secret)).verify(BODY, headers) == {"type": "job.completed", "note": "é"}
    wrong = [
        (BODY + b" ", headers, secrets[0]),
        (BODY, {**headers, "webhook-id": "other"}, secrets[0]),
        (BODY, {**headers, "webhook-timestamp": str(int(headers["webhook-timestamp"]) + 1)}, secrets[0]),
        (BODY, headers, b"3" * 32),
    ]
    for body, sent, secret in wrong:
        with pytest.raises(WebhookVerificationError):
            Webhook(shown(secret)).verify(body, sent)
