"""Examples of signed heads, made by the code that makes the answers. Their signature is a placeholder."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta

from shared.apidocs.json_schema import JsonObject
from shared.core.audit.heads import DayHead, json_lines
from shared.core.audit.statements import anchor_statement, dsse_envelope, heads_statement, instant_text, sha256

_KEY_ID = sha256(b"key")
_SIGNATURE = bytes(70)


def by_model(job_id: str) -> JsonObject:
    """Returns an example for each response, by the name of its model."""
    tenant, day = "tenant_a", date(2026, 1, 27)
    begins = datetime.combine(day, time(), UTC)
    head = DayHead(name=job_id, day=day, seq=9, hash=sha256(b"event"))
    page = heads_statement(tenant, begins, begins + timedelta(days=1), [head], page=1, last=True, previous="")
    lines: list[dict[str, str | int]] = [{"tenant": tenant, "day": day.isoformat()}, head.line]
    anchor = anchor_statement(day, sha256(b"anchor"), [sha256(json_lines(lines))])
    key = {
        "keyid": _KEY_ID,
        "pem": "-----BEGIN PUBLIC KEY-----\nMFkw...\n-----END PUBLIC KEY-----\n",
        "state": "active",
        "first_signed_at": instant_text(begins),
    }
    anchors = [{"day": day.isoformat(), "envelope": dsse_envelope(anchor, _KEY_ID, _SIGNATURE), "lines": lines}]
    return {
        "HeadsPage": {"envelope": dsse_envelope(page, _KEY_ID, _SIGNATURE), "next": None},
        "AnchorPage": {"anchors": anchors, "next": None},
        "AuditKeys": {"keys": [key]},
    }
