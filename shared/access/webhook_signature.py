"""Secrets and signatures of webhooks, as in Standard Webhooks. With these secrets and signatures, an endpoint checks
that LUCIUS sent a request (R87).

https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Sequence
from datetime import datetime

from shared.access.callback_token import Keys
from shared.core.webhooks.webhooks import Hook, SecretVersion
from shared.webhook_refusals import HookKeyGone


def secrets_of(keys: Keys, hook: Hook, now: datetime, *, deployment: str) -> list[bytes]:
    """Returns the secrets that sign the webhook's deliveries, newest first. Each has 32 bytes, and is derived from the
    configured `keys`.

    `deployment` is `LUCIUS_ENVIRONMENT`, so deployments with the same keys have different secrets. The result includes
    the secret before the last rotation until `previous_until`, if the key of that secret is still configured. Raises
    HookKeyGone if the key of the newest secret is no longer configured. A rotation then makes a secret from the first
    configured key.
    """
    by_id = dict(keys)
    if hook.secret.key_id not in by_id:
        raise HookKeyGone(hook.id)
    versions = [hook.secret]
    if hook.previous is not None and hook.previous_until is not None and now < hook.previous_until:
        versions += [hook.previous] if hook.previous.key_id in by_id else []
    return [_derived(by_id[each.key_id], deployment, hook, each) for each in versions]


def signed_headers(message_id: str, body: bytes, secrets: Sequence[bytes], now: datetime) -> dict[str, str]:
    """Returns the headers `webhook-id`, `webhook-timestamp` in seconds, and `webhook-signature` with one `v1` for each
    secret.
    """
    timestamp = str(int(now.timestamp()))
    content = b".".join((message_id.encode(), timestamp.encode(), body))
    macs = (base64.b64encode(hmac.digest(each, content, "sha256")).decode() for each in secrets)
    return {
        "webhook-id": message_id,
        "webhook-timestamp": timestamp,
        "webhook-signature": " ".join(f"v1,{mac}" for mac in macs),
    }


def shown(secret: bytes) -> str:
    """Formats a secret as endpoints' libraries expect: `whsec_` and base64."""
    return f"whsec_{base64.b64encode(secret).decode()}"


def _derived(key: bytes, deployment: str, hook: Hook, version: SecretVersion) -> bytes:
    """Derives a secret by HKDF-SHA256 (RFC 5869), one block.

    `info` has the webhook's identity, so that no two webhooks share a secret. A webhook that was deleted and created
    again with the same id has another secret.
    """
    info = "\0".join(("lucius webhook", deployment, hook.tenant, hook.id, str(version.version), version.salt)).encode()
    extracted = hmac.digest(bytes(hashlib.sha256().digest_size), key, "sha256")
    return hmac.digest(extracted, info + b"\x01", "sha256")
