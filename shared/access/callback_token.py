"""Signed tokens for HTTP callbacks. Each token is for one attempt and its lease, and expires (R42).

A token is `lc1.{key id}.{claims}.{signature}`. The claims are base64url JSON. The signature is the HMAC-SHA256 of all
text before the signature.

The first configured key signs and all keys verify, so keys can be changed without a pause. Claims name the deployment
(`LUCIUS_ENVIRONMENT`), so a deployment refuses a token of another deployment with the same keys.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from shared.core.jobs.job import Record, Step
from shared.core.jobs.states import StepStatus

_VERSION = "lc1"
#: name of the claim with the deployment
_DEPLOYMENT = "deployment"
#: maximum length; a longer token is not parsed
_MAX_LENGTH = 4096

#: pairs (key id, secret)
Keys = Sequence[tuple[str, bytes]]


@dataclass(frozen=True, kw_only=True)
class Grant:
    """The rights of a token: to reply to one attempt, until the token expires."""

    job_id: str
    step_id: str
    tenant_id: str
    attempt_no: int
    lease_id: str
    expires_at: datetime


def grant_of(record: Record, step: Step) -> Grant:
    """Returns the grant of the current attempt.

    The grant stays valid for `lease_s` seconds after the lease, since LUCIUS records a late RESULT. Before the ACK,
    the grant also covers `lease_s` seconds after the time limit of the step or job. The directive can wait on the bus
    until then.
    """
    until = step.silent_until or step.updated_at
    if step.status is StepStatus.INITIATED:
        until = max(until, record.cap_of(step) or until)
    return Grant(
        job_id=record.job.job_id,
        step_id=step.step_id,
        tenant_id=record.job.tenant_id,
        attempt_no=step.attempt_no,
        lease_id=step.lease_id or "",
        expires_at=until + timedelta(seconds=step.timings.lease_s),
    )


def sign_token(grant: Grant, keys: Keys, *, deployment: str) -> str:
    """Signs a grant. The same grant gives the same token."""
    claims = {
        "job": grant.job_id,
        "step": grant.step_id,
        "tenant": grant.tenant_id,
        "attempt": grant.attempt_no,
        "lease": grant.lease_id,
        "exp": grant.expires_at.timestamp(),
    }
    return sign_claims(_VERSION, claims, keys, deployment=deployment)


def verify_token(token: str, keys: Keys, now: datetime, *, deployment: str) -> Grant:
    """Returns the grant of a token. Raises ValueError with the reason if the token is invalid or has expired. The
    reason reveals nothing about the keys.
    """
    claims = verified_claims(_VERSION, token, keys, deployment=deployment)
    grant = Grant(
        job_id=claims["job"],
        step_id=claims["step"],
        tenant_id=claims["tenant"],
        attempt_no=claims["attempt"],
        lease_id=claims["lease"],
        expires_at=datetime.fromtimestamp(claims["exp"], UTC),
    )
    if grant.expires_at <= now:
        raise ValueError("the token has expired")
    return grant


def sign_claims(version: str, claims: Mapping[str, Any], keys: Keys, *, deployment: str) -> str:
    """Signs the claims and their deployment with the first key. `version` separates the kinds of tokens, and is signed
    too.
    """
    kid, secret = keys[0]
    text = json.dumps({**claims, _DEPLOYMENT: deployment}, separators=(",", ":"), sort_keys=True).encode()
    head = f"{version}.{kid}.{_encode(text)}"
    return f"{head}.{_encode(_mac(secret, head))}"


def verified_claims(version: str, token: str, keys: Keys, *, deployment: str) -> dict[str, Any]:
    """Returns the claims that `sign_claims` signed for that version and deployment. The caller checks their expiry.

    Raises ValueError with the reason, which reveals nothing about the keys.
    """
    parts = token.split(".") if len(token) <= _MAX_LENGTH and token.isascii() else []
    if len(parts) != 4 or parts[0] != version:
        raise ValueError("the token was not issued by this app")
    head, _, signature = token.rpartition(".")
    # tries every key, for known and unknown key ids, so that the duration reveals nothing
    good = [hmac.compare_digest(_encode(_mac(secret, head)), signature) and kid == parts[1] for kid, secret in keys]
    if not any(good):
        raise ValueError("the signature of the token is invalid")
    try:
        claims: dict[str, Any] = json.loads(_decode(parts[2]))
    except (binascii.Error, ValueError):
        raise ValueError("the token was not issued by this app") from None
    if claims.get(_DEPLOYMENT) != deployment:
        raise ValueError("the token was issued by another deployment")
    return claims


def _mac(secret: bytes, text: str) -> bytes:
    return hmac.new(secret, text.encode("ascii"), hashlib.sha256).digest()


def _encode(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def _decode(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
