"""The app as its callers reach it: a stack with authentication on, and tokens of its issuer."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import httpx

from tests.running_stack import RunningStack

EVERY_SCOPE = "orch:read orch:operate orch:quota orch:audit orch:admin"
DEADLINE_S = 60
#: two tenants; jobs of theirs belong to no other
A, B = "tenant_a", "tenant_b"


@dataclass
class Door:
    """Requests over HTTP of one caller."""

    stack: RunningStack
    #: one for all, because each creates its own TLS context, which is slow
    client: httpx.Client = field(default_factory=lambda: httpx.Client(timeout=60))
    _tokens: dict[tuple[str, ...], str] = field(default_factory=dict)

    def token(self, tenant: str = "tenant_a", scope: str = EVERY_SCOPE, roles: str = "", claims: str = "{}") -> str:
        # an administrator gives this one, no client can request it
        roles = " ".join([*(["orch:admin"] if "orch:admin" in scope.split() else []), *roles.split()])
        asked = (tenant, scope, roles, claims)
        if asked not in self._tokens:
            names = ("tenant", "scope", "roles", "claims")
            form = {"grant_type": "client_credentials", **dict(zip(names, asked, strict=True))}
            answer = self.client.post(f"{self.stack.issuer}/token", data=form).raise_for_status()
            self._tokens[asked] = answer.json()["access_token"]
        return self._tokens[asked]

    def ask(
        self, method: str, path: str, *, tenant: str | None = "tenant_a", scope: str = EVERY_SCOPE, **more: Any
    ) -> httpx.Response:
        """`tenant` None: without a token; "*": an operator of all tenants. `headers` win over the token's."""
        headers = {}
        if tenant is not None:
            token = self.token("", scope, "orch:all-tenants") if tenant == "*" else self.token(tenant, scope)
            headers["Authorization"] = f"Bearer {token}"
        headers |= more.pop("headers", {})
        return self.client.request(method, self.stack.api + path, headers=headers, **more)

    def get(self, path: str, *, tenant: str | None = "tenant_a", **params: str) -> httpx.Response:
        return self.ask("GET", path, tenant=tenant, params=params or None)

    def submit(self, *, tenant: str = "tenant_a", **changes: Any) -> httpx.Response:
        return self.ask("POST", "/v1/orchestrate", tenant=tenant, json=envelope(tenant_id=tenant, **changes))

    def job(self, tenant: str = "tenant_a", **changes: Any) -> str:
        """A job of the tenant's; its id."""
        answer = self.submit(tenant=tenant, **changes)
        assert answer.status_code == 202, answer.text
        return str(answer.json()["jobId"])

    def until(self, path: str, good: Callable[[dict[str, Any]], bool], *, tenant: str = "tenant_a") -> dict[str, Any]:
        deadline = time.monotonic() + DEADLINE_S
        while not good(found := self.get(path, tenant=tenant).raise_for_status().json()):
            assert time.monotonic() < deadline, found
            time.sleep(0.05)
        return dict(found)


def envelope(**changes: Any) -> dict[str, Any]:
    return {
        "schema_version": "1.0",
        "tenant_id": "tenant_a",
        "request_type": "OCR",
        "input_ref": {"uri": "https://docs.example/in.pdf"},
        "output_ref": {"uri": "https://docs.example/out.json"},
        "payload": {"ocr": {}},
        **changes,
    }


def code(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["code"]
