"""The jobs in the tests of the dashboard: a scripted service moves each to its state."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

from azure.storage.blob import BlobClient, ContainerClient

from tests.api.live import Live, envelope
from tests.running_stack import RunningStack
from tests.stack.scripted_service import TENANT, ScriptedService
from tests.waiting import wait_until

#: a text of a caller, which must stay text
SCRIPT = "<script>document.title='hacked'</script><img src=x onerror=alert(1)>"
RTL = "\u202egnp.ecioani\u2066"
LONG = "long " * 2000
PACK = {"packId": "test", "packVersion": "1.0.0", "planHash": f"sha256:{'0' * 64}"}
ENDS = {"SUCCEEDED", "FAILED_FINAL", "CANCELLED"}


@dataclass
class Scene:
    """Ids of jobs of tenant TENANT, by their outcome."""

    #: it succeeded in its second attempt; a RESULT of the first one came late
    retried: str
    #: the service failed it; code and message are hostile
    failed: str
    #: it waits for its ACK
    queued: str
    #: two jobs that wait for the quota of the tenant of `throttled_tenant`
    throttled: list[str]
    throttled_tenant: str
    #: a run whose log has begun; no service has it
    run: str
    #: an incident, open
    incident: str
    #: a message that no job accepted
    rejected: str


def submit(api: Live, **changes: Any) -> str:
    body = envelope(**{"idempotency_key": str(uuid.uuid4()), **changes})
    client = api.client(tenant=changes.get("tenant_id", TENANT))
    return str(client.post("/v1/orchestrate", json=body).raise_for_status().json()["jobId"])


def log_of(api: Live, job_id: str, attempt: int = 1) -> BlobClient:
    """The log of an attempt of a run, as its runner would write it."""
    return log_in(api.stack, TENANT, job_id, attempt)


def log_in(stack: RunningStack, tenant: str, job_id: str, attempt: int = 1) -> BlobClient:
    blob = BlobClient.from_connection_string(stack.storage_connection, "runs", f"{tenant}/{job_id}/{attempt}.log")
    if not blob.exists():
        with ContainerClient.from_connection_string(stack.storage_connection, "runs") as container:
            if not container.exists():
                container.create_container()
        blob.create_append_blob()
    return blob


def play(api: Live) -> Scene:
    """Plays the jobs to their states, in about five seconds."""
    operator = api.operator()
    with ScriptedService(api.stack.bus_connection) as service:
        retried = submit(api, labels={"batch": "one"}, doc_id="invoice-1")
        first = service.directive(retried)
        service.reply(first, "ACK")
        service.reply(
            first, "RESULT", status="FAILED_RETRY", error={"code": "BUSY", "message": "later"}, result_ref=None
        )
        second = service.directive(retried)
        service.reply(second, "ACK")
        service.reply(first, "RESULT")
        service.reply(second, "RESULT", metrics={"pages": 4})
        hostile = {"doc_id": SCRIPT, "idempotency_key": f"{RTL}{SCRIPT}", "correlation_id": f"{SCRIPT}{RTL}"}
        failed = submit(api, labels={"note": SCRIPT[:60], "rtl": RTL, SCRIPT: "x"}, source=RTL, **hostile)
        error = {"code": "ATTEMPTS_EXHAUSTED", "message": f"{SCRIPT} {RTL} {LONG}"[:10000]}
        service.reply(service.directive(failed), "RESULT", status="FAILED_FINAL", error=error, result_ref=None)
        service.send("this is not JSON <script>")
    queued = submit(api, labels={"batch": "two"})
    run = submit(api, request_type="PACK_RUN", payload=PACK, doc_id="a run")
    log_of(api, run).append_block(f"page 1 {SCRIPT}\n".encode())
    tenant = f"acme-{uuid.uuid4()}"
    quota = operator.get("/v1/quotas", params={"tenant": tenant}).json()["quotas"][0]
    match = {"If-Match": quota["etag"]}
    change = {"max_active": 1, "reason": "a small contract"}
    operator.patch(
        f"/v1/quotas/{quota['id']}", params={"tenant": tenant}, json=change, headers=match
    ).raise_for_status()
    jobs = [submit(api, tenant_id=tenant) for _ in range(3)]

    def ended(job_id: str) -> bool:
        return operator.get(f"/v1/jobs/{job_id}").json()["status"] in ENDS

    def one(path: str, key: str) -> dict[str, Any] | None:
        return next(iter(operator.get(path).json()[key]), None)

    for job_id in (retried, failed):
        wait_until(lambda: ended(job_id), f"{job_id} has not ended")  # noqa: B023
    incident = wait_until(lambda: one("/v1/incidents", "incidents"), "no incident was opened")
    rejected = wait_until(lambda: one("/v1/rejected", "rejected"), "no message was rejected")
    wait_until(lambda: operator.get(f"/v1/jobs/{retried}/receipt").json()["replies_ignored"], "no reply was late")
    return Scene(retried, failed, queued, jobs[1:], tenant, run, incident["incidentId"], rejected["id"])
