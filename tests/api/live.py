"""A stack that asks for tokens, with its own issuer, as its callers have it."""

from __future__ import annotations

import base64
import time
from dataclasses import dataclass, field
from typing import Any

import httpx

from tests import running_stack
from tests.running_stack import RunningStack
from tests.stack.scripted_service import TENANT, ScriptedService

_DEADLINE_S = 60
SCOPES = "orch:read orch:operate orch:quota orch:admin"
#: nobody answers directives here, and nothing is to happen by itself meanwhile
ENVIRONMENT = {
    "LUCIUS_ACK_TIMEOUT_SECONDS": "3600",
    "LUCIUS_CALLBACK_KEYS": f"k1:{base64.b64encode(b'k' * 32).decode()}",
    "LUCIUS_PUBLIC_URL": "https://lucius.example/base",
}


@dataclass
class Live:
    """The stack and a client for each kind of caller."""

    stack: RunningStack
    clients: list[httpx.Client] = field(default_factory=list)

    def token(self, **form: str) -> str:
        wanted = {"grant_type": "client_credentials", "scope": SCOPES, "expires_in": "3600", **form}
        answer = httpx.post(f"{self.stack.issuer}/token", data=wanted, timeout=30).raise_for_status()
        return str(answer.json()["access_token"])

    def client(self, **form: str) -> httpx.Client:
        """Requests as the tenant of these tests, unless `form` says otherwise."""
        headers = {"Authorization": f"Bearer {self.token(**(form or {'tenant': TENANT}))}"}
        made = httpx.Client(base_url=self.stack.api, headers=headers, timeout=60)
        self.clients.append(made)
        return made

    def operator(self) -> httpx.Client:
        """Sees every tenant's jobs."""
        return self.client(roles="orch:all-tenants")

    def callback_token(self) -> str:
        """Of an attempt whose directive is out."""
        job_id = self.client().post("/v1/orchestrate", json=envelope(doc_id="callbacks")).json()["jobId"]
        with ScriptedService(self.stack.bus_connection) as service:
            return str(service.directive(job_id)["callback_urls"]["token"])

    def jobs(self) -> list[str]:
        """One that waits for its ACK, and one that was cancelled."""
        client = self.client()
        ids = [str(client.post("/v1/orchestrate", json=envelope(doc_id=name)).json()["jobId"]) for name in ("1", "2")]
        client.post(f"/v1/jobs/{ids[1]}:cancel").raise_for_status()
        return ids

    def rejected(self) -> list[str]:
        """A message that no job could take."""
        with ScriptedService(self.stack.bus_connection) as service:
            service.send("this is not JSON")
        deadline = time.monotonic() + _DEADLINE_S
        while not (found := self.operator().get("/v1/rejected").json()["rejected"]):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        return [str(found[0]["id"])]

    def close(self) -> None:
        for client in self.clients:
            client.close()


def start(data: Any) -> Live:
    return Live(running_stack.start(data, "--without-services", "--auth", environment=ENVIRONMENT))


def envelope(**changes: Any) -> dict[str, Any]:
    body = {
        "schema_version": "1.0",
        "tenant_id": TENANT,
        "request_type": "OCR",
        "input_ref": "https://example.com/a.pdf",
        "output_ref": "https://example.com/a.json",
        "payload": {},
    }
    return body | changes
