"""Submits one document to a running LUCIUS and waits for SUCCEEDED. The workflow deploy.yml runs this test as the last
step of a deployment.

With a local `make up`:

    .venv/bin/python scripts/smoke.py

Against Azure, signed in by az:

    .venv/bin/python scripts/smoke.py --api https://... --blobs https://... --audience ID

Exits with 0 if the job SUCCEEDED, and with 1 if the job did not, or the API returned an HTTP error. Exits with 2 for an
invalid argument. Exits with 3 if the API does not respond, the upload fails, or no token is available.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import time
import urllib.error
import urllib.request
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

from azure.core.exceptions import AzureError, ResourceExistsError
from azure.identity import DefaultAzureCredential
from azure.storage.blob import BlobServiceClient

ROOT = Path(__file__).resolve().parent.parent
#: Azurite's public development account
_AZURITE = (
    "DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;"
    "AccountKey=Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==;"
)
_TERMINAL = ("SUCCEEDED", "FAILED_FINAL", "CANCELLED")
#: seconds between two requests for the job
_POLL_S = 2.0
_REQUEST_TIMEOUT_S = 30
#: characters that a terminal executes instead of showing: controls of ECMA-48 but tab and line feed, surrogates, and
#: UAX #9's embeddings, overrides and isolates
_COMMANDS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


class Away(Exception):
    """The API does not respond, the upload failed, or no token is available. The message names the unavailable part."""


class Failed(Exception):
    """The job did not succeed, or the API returned an HTTP error. The message has the job's events or the response."""


def write(text: str, *, stderr: bool = False) -> None:
    """Writes a line, or several, with U+FFFD in place of each character that a terminal executes.

    The packages of the command line are missing here. Next to a token, only the packages of requirements.lock are
    installed.
    """
    visible = _COMMANDS.sub("\N{REPLACEMENT CHARACTER}", text)
    print(visible, file=sys.stderr if stderr else sys.stdout, flush=True)


class Api:
    """The HTTP API, called with a token if there is an audience."""

    def __init__(self, url: str, audience: str) -> None:
        self._url = url.rstrip("/")
        self._scope = f"{audience}/.default" if audience else ""
        self._credential = DefaultAzureCredential() if audience else None

    def call(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """Sends a request. Raises Away if there is no token or no JSON response. Raises Failed for an HTTP error."""
        request = urllib.request.Request(f"{self._url}{path}", method=method)
        if body is not None:
            request.data = json.dumps(body).encode()
            request.add_header("Content-Type", "application/json")
        try:
            if self._credential is not None:
                request.add_header("Authorization", f"Bearer {self._credential.get_token(self._scope).token}")
            with urllib.request.urlopen(request, timeout=_REQUEST_TIMEOUT_S) as response:
                content: dict[str, Any] = json.load(response)
                return content
        except urllib.error.HTTPError as error:
            text = error.read(2000).decode(errors="replace")
            raise Failed(f"{method} {path}: HTTP {error.code}: {text}") from None
        except (OSError, ValueError, AzureError) as error:
            raise Away(f"{self._url}: {type(error).__name__}: {error}") from None


def tenant_folder(tenant: str) -> str:
    """Returns the value of `{tenant}` in LUCIUS_ALLOWED_REF_HOSTS. Each byte of other characters than ASCII letters,
    digits and `_.~@ -` becomes `=XX`.
    """
    name = tenant.strip().lower()
    return re.sub(r"[^A-Za-z0-9_.~@ -]", lambda char: "".join(f"={byte:02X}" for byte in char[0].encode()), name)


def upload(blobs: str, connection: str, container: str, document: Path, tenant: str) -> tuple[str, str]:
    """Uploads the document into the tenant's folder of the container, under a new name.

    Returns the URI of the document and the URI of the tenant's folder of results. A deployment allows only folders with
    the name of the tenant. Raises Away.
    """
    folder = tenant_folder(tenant)
    try:
        if blobs.startswith("https://"):
            client = BlobServiceClient(blobs, credential=DefaultAzureCredential(), retry_total=2)
        else:
            client = BlobServiceClient.from_connection_string(connection, retry_total=2)
            # in Azure the template creates the container
            with suppress(ResourceExistsError):
                client.create_container(container)
        blob = client.get_blob_client(container, f"{folder}/{uuid.uuid4().hex}{document.suffix}")
        blob.upload_blob(document.read_bytes())
    except AzureError as error:
        raise Away(f"the blob store: {type(error).__name__}: {str(error).splitlines()[0]}") from None
    return str(blob.url), f"{client.url.rstrip('/')}/results/{quote(folder)}"


def wait_ready(api: Api, deadline: float) -> None:
    """Waits until the app is ready, since a deployment may have ended seconds ago. Raises Away or Failed after
    `deadline`.
    """
    while True:
        try:
            api.call("GET", "/v1/health/ready")
            return
        except (Away, Failed):
            if time.monotonic() > deadline:
                raise
            time.sleep(_POLL_S)


def run(api: Api, args: argparse.Namespace) -> dict[str, Any]:
    """Submits the document. Returns the job after the job has SUCCEEDED. Raises Away or Failed."""
    deadline = time.monotonic() + args.timeout
    wait_ready(api, deadline)
    input_uri, results_uri = upload(args.blobs, args.connection, args.container, args.document, args.tenant)
    created = api.call(
        "POST",
        "/v1/orchestrate",
        {
            "schema_version": "1.0",
            "tenant_id": args.tenant,
            "request_type": args.protocol,
            "input_ref": {"uri": input_uri},
            "output_ref": {"uri": results_uri},
            "payload": {"sis": {"prompt_set": [args.ask]}} if "SIS" in args.protocol else {},
        },
    )
    job_id = created["jobId"]
    write(f"{job_id} {args.protocol} {args.document.name}")
    shown: list[str] = []
    while True:
        job = api.call("GET", f"/v1/jobs/{job_id}")
        now = [f"{step['stepId']} {step['status']}" for step in job["steps"]]
        if now != shown:
            write(f"{job['status']}: {', '.join(now)}")
            shown = now
        if job["status"] == "SUCCEEDED":
            return job
        if job["status"] in _TERMINAL or time.monotonic() > deadline:
            trail = api.call("GET", f"/v1/jobs/{job_id}/events?limit=50")["events"]
            lines = [f"{e['at']} {e['stepId'] or ''} {e['type']} {e['reason'] or ''}".rstrip() for e in trail]
            why = job.get("error_code") or ("no error code" if job["status"] in _TERMINAL else "timeout reached")
            raise Failed("\n".join([*lines, f"{job_id} is {job['status']}: {why}"]))
        time.sleep(_POLL_S)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--api", default="http://127.0.0.1:7071", help="URL of the API")
    parser.add_argument(
        "--blobs",
        default="http://127.0.0.1:10000/devstoreaccount1",
        help="blob endpoint for the document",
    )
    parser.add_argument("--container", default="smoke", help="container for the document")
    parser.add_argument("--audience", default="", help="audience of tokens; default: no token")
    sample = ROOT / "samples" / "invoice.png"
    parser.add_argument("--document", type=Path, default=sample, help="file to submit; default: samples/invoice.png")
    parser.add_argument("--protocol", default="OCR_EMBEDDING_SIS", help="job type")
    parser.add_argument("--ask", default="What is the total amount due?", help="the question, for protocols with SIS")
    parser.add_argument(
        "--tenant", default="smoke", help="tenant of the job; without roles over all tenants, the tenant of the token"
    )
    parser.add_argument("--timeout", type=float, default=900, help="maximum seconds for the whole test")
    args = parser.parse_args(argv)
    if not args.document.is_file():
        parser.error(f"file not found: {args.document}")
    args.connection = os.environ.get("LUCIUS_BLOB_CONNECTION") or f"{_AZURITE}BlobEndpoint={args.blobs};"
    try:
        job = run(Api(args.api, args.audience), args)
    except (Failed, Away) as fault:
        write(str(fault), stderr=True)
        return 1 if isinstance(fault, Failed) else 3
    write(f"SUCCEEDED {job['final_output']['uri']}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
