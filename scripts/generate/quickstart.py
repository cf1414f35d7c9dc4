"""The first commands of docs/reference/api.md, which start a stack, log in, submit jobs, read a job and show errors."""

from __future__ import annotations

import json

from shared.apidocs.examples import ENVELOPE

#: URLs of the API that `make up` starts, and of the issuer that AUTH=1 adds
API = "http://127.0.0.1:7071"
ISSUER = "http://127.0.0.1:7080"
#: URL of the Azurite that `make up` starts; it has the samples of the checkout
BLOBS = "http://127.0.0.1:10000/devstoreaccount1"

_TENANT = ENVELOPE["tenant_id"]


def commands(server: str, issuer: str = ISSUER, blobs: str = BLOBS) -> list[tuple[str, str]]:
    """Returns (purpose, shell command) in order. The first command has its own terminal, the others share a shell."""
    bearer = '-H "Authorization: Bearer $TOKEN"'
    # `lucius` finds the default stack by itself; another one must be named
    other = server != API and issuer != ISSUER
    lucius = f"LUCIUS_API={server} LUCIUS_ISSUER={issuer} .venv/bin/lucius" if other else ".venv/bin/lucius"
    envelope = {name: value for name, value in ENVELOPE.items() if name != "labels"} | {
        "input_ref": {"uri": f"{blobs}/documents/samples/invoice.png"},
        "output_ref": {"uri": f"{blobs}/results"},
    }
    body = json.dumps(envelope, ensure_ascii=False)
    return [
        ("Start a stack with a token issuer on this machine.", "make up AUTH=1"),
        (
            "In another terminal, log in as a tenant. `lucius` stores the token.",
            f"{lucius} login --as {_TENANT}",
        ),
        (
            "Submit a document and watch its job.",
            f"{lucius} submit samples/bw40-manual.pdf --protocol OCR --tenant {_TENANT} --watch",
        ),
        (
            "Without `lucius`, request a token from the issuer.",
            f"TOKEN=$(curl -s {issuer}/token -d grant_type=client_credentials -d tenant={_TENANT} "
            "-d 'scope=orch:read orch:operate' | .venv/bin/python -c 'import json, sys; "
            'print(json.load(sys.stdin)["access_token"])\')',
        ),
        (
            "Submit a job for a sample. The response is 202 with the job's URL in `Location`. A repeated request "
            "returns the same job.",
            f"curl -si {bearer} -H 'Content-Type: application/json' -d '{body}' {server}/v1/orchestrate "
            "| tee /tmp/answer.txt",
        ),
        (
            "Get the job. The response comes when the job has ended, or after 20 seconds.",
            f"JOB=$(sed -n 's/^[Ll]ocation: *\\([^[:space:]]*\\).*/\\1/p' /tmp/answer.txt)\n"
            f'curl -s {bearer} "{server}$JOB?wait=20&until=ended"',
        ),
        ("Explain the state of the job.", f"curl -s {bearer} {server}$JOB/explain"),
        ("A request without a token returns 401, with the next step in `detail`.", f"curl -si {server}/v1/jobs"),
        (
            "A request for another tenant returns 403.",
            f"curl -si {bearer} '{server}/v1/jobs?tenant_id=tenant_b'",
        ),
    ]
