"""A stack that requires tokens, with its own issuer, as its callers use it."""

from __future__ import annotations

import base64
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from servicebus_emulator.tls import make_certificate
from tests import running_stack
from tests.running_stack import RunningStack
from tests.stack.scripted_service import TENANT, ScriptedService
from tests.waiting import wait_until

SCOPES = "orch:read orch:operate orch:quota orch:audit orch:admin"
#: no service replies here, and no time-out may pass while a test runs
ENVIRONMENT = {
    "LUCIUS_ACK_TIMEOUT_SECONDS": "3600",
    "LUCIUS_EXECUTION_BACKOFF_SECONDS": "0.5",
    "LUCIUS_CALLBACK_KEYS": f"k1:{base64.b64encode(b'k' * 32).decode()}",
    "LUCIUS_EVENTS": "feed",
    "LUCIUS_PUBLIC_URL": "https://lucius.example/base",
}


@dataclass
class Live:
    """The stack and a client for each kind of caller."""

    stack: RunningStack
    #: of a receiver at `localhost` that the stack trusts: certificate and key
    certificate: tuple[Path, Path]
    clients: list[httpx.Client] = field(default_factory=list)

    def token(self, **form: str) -> str:
        form = {"grant_type": "client_credentials", "scope": SCOPES, "expires_in": "3600", **form}
        if "orch:admin" in form["scope"]:
            form["roles"] = f"orch:admin {form.get('roles', '')}"
        response = self.stack.http.post(f"{self.stack.issuer}/token", data=form).raise_for_status()
        return str(response.json()["access_token"])

    def client(self, **form: str) -> httpx.Client:
        """Returns a client with a token: of the tenant of these tests, or with the claims in `form`."""
        headers = {"Authorization": f"Bearer {self.token(**(form or {'tenant': TENANT}))}"}
        # to verify no certificate saves loading them: 30 ms of CPU
        client = httpx.Client(base_url=self.stack.api, headers=headers, timeout=60, verify=False)
        self.clients.append(client)
        return client

    def operator(self) -> httpx.Client:
        """A client that sees every tenant's jobs."""
        return self.client(roles="orch:all-tenants")

    def callback_token(self) -> str:
        """Returns the token of an attempt whose directive was sent."""
        body = envelope(idempotency_key=str(uuid.uuid4()))  # its own job: its directive is received once
        job_id = self.client().post("/v1/orchestrate", json=body).json()["jobId"]
        with ScriptedService(self.stack.bus_connection) as service:
            return str(service.directive(job_id)["callback_urls"]["token"])

    def jobs(self) -> list[str]:
        """Two jobs: one waits for its ACK, one was cancelled."""
        client = self.client()
        ids = [str(client.post("/v1/orchestrate", json=envelope(doc_id=name)).json()["jobId"]) for name in ("1", "2")]
        client.post(f"/v1/jobs/{ids[1]}:cancel").raise_for_status()
        return ids

    def rejected(self) -> list[str]:
        """A quarantined message, which no job could take."""
        with ScriptedService(self.stack.bus_connection) as service:
            message_id = service.send("this is not JSON")
        operator = self.operator()

        def quarantined() -> str | None:
            messages = operator.get("/v1/rejected").json()["rejected"]
            return next((str(each["id"]) for each in messages if each["message_id"] == message_id), None)

        return [wait_until(quarantined, "the message was not quarantined")]

    def close(self) -> None:
        for client in self.clients:
            client.close()


def start(data: Any) -> Live:
    certificate = make_certificate(Path(data) / "tls")
    environment = {**ENVIRONMENT, "SSL_CERT_FILE": str(certificate[0])}
    return Live(running_stack.start(data, "--without-services", "--auth", environment=environment), certificate)


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
