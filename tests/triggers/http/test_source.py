"""The origin of a job's source (R24)."""

from __future__ import annotations

import json

from shared.access.caller import ANYONE, Caller, Scope
from tests.api.live import envelope
from triggers.orchestrate_http import envelope_of


def test_the_token_may_name_the_source() -> None:
    """It overrides the body; if the token names none, or there are no tokens, the body's source counts."""
    body = json.dumps(envelope(tenant_id="tenant_a", source="forged")).encode()

    def source(caller: Caller) -> str | None:
        return envelope_of(body, caller).source

    device = Caller(actor="app:1", scopes=frozenset(Scope), tenant="tenant_a", source="Scanner-7")
    plain = Caller(actor="app:1", scopes=frozenset(Scope), tenant="tenant_a")
    assert [source(each) for each in (device, plain, ANYONE)] == ["Scanner-7", "forged", "forged"]
