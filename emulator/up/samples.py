"""The first steps of a new user. The module uploads the samples, and shows two commands to paste."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from emulator.up.children import ROOT
from emulator.up.environment import blob_endpoint, issuer_url
from emulator.up.ports import DEFAULTS, LOOPBACK, Ports

SAMPLES = ROOT / "samples"
#: container that the commands and `lucius submit` use
DOCUMENTS = "documents"
RESULTS = "results"
PROTOCOL = "OCR_EMBEDDING_SIS"
TENANT = "demo"


def sample_paths() -> list[Path]:
    return sorted(path for path in SAMPLES.glob("*") if path.suffix in {".pdf", ".png"})


async def upload_samples(connection: str) -> None:
    """Creates the containers `documents` and `results`. Uploads every sample into `documents`, as `samples/NAME`."""
    from azure.core.exceptions import ResourceExistsError
    from azure.storage.blob.aio import BlobServiceClient

    async with BlobServiceClient.from_connection_string(connection) as client:
        for container in (DOCUMENTS, RESULTS):
            with suppress(ResourceExistsError):
                await client.create_container(container)
        for path in sample_paths():
            blob = client.get_blob_client(DOCUMENTS, f"samples/{path.name}")
            await blob.upload_blob(path.read_bytes(), overwrite=True)


def commands_text(ports: Ports, environment: Mapping[str, str]) -> str:
    """Returns the text for the terminal with the first commands. With an issuer, the first command gets a token."""
    first, second = first_commands(ports, environment)
    token = ""
    if ports.issuer:
        token = (
            f"\nA token for tenant {TENANT}, valid for an hour:\n\n"
            f"TOKEN=$(curl -s {issuer_url(ports)}/token -d grant_type=client_credentials -d tenant={TENANT} "
            '-d \'scope=orch:read orch:operate\' | sed \'s/.*"access_token": *"\\([^"]*\\)".*/\\1/\')\n'
        )
    return (
        f"{token}\nA job for a sample that is uploaded already:\n\n{first}\n"
        f"\nOr upload a file, submit it and watch:\n\n{second}\n"
    )


def first_commands(ports: Ports, environment: Mapping[str, str]) -> list[str]:
    """Returns a `curl` that submits a job for an uploaded sample, and a `lucius submit` that uploads a sample. With an
    issuer, a line with `lucius login` precedes `lucius submit`.
    """
    path = sample_paths()[0]
    question = json.loads((SAMPLES / "questions.json").read_text(encoding="utf-8"))[path.name][0]["prompt"]
    api, blob = f"http://{LOOPBACK}:{ports.api}", blob_endpoint(ports)
    envelope: dict[str, Any] = {
        "schema_version": "1.0",
        "tenant_id": TENANT,
        "request_type": PROTOCOL,
        "input_ref": {"uri": f"{blob}/{DOCUMENTS}/samples/{path.name}"},
        "output_ref": {"uri": f"{blob}/{RESULTS}"},
        "payload": {"sis": {"prompt_set": [question]}},
    }
    curl = [
        "curl",
        "-s",
        f"{api}/v1/orchestrate",
        "-H",
        "Content-Type: application/json",
        "-d",
        json.dumps(envelope),
    ]
    program = _shown(Path(sys.executable).parent / "lucius")
    lucius = [program, "submit", _shown(path), "--protocol", PROTOCOL, "--tenant", TENANT, "--ask", question, "--watch"]
    login = [program, "login", "--as", TENANT]
    if ports.issuer != DEFAULTS.issuer:
        login += ["--issuer", issuer_url(ports)]
    if ports.api != DEFAULTS.api:
        lucius += ["--api", api]
        login += ["--api", api]
    storage = ""
    if ports.azurite != DEFAULTS.azurite:
        storage = f"LUCIUS_BLOB_CONNECTION={shlex.quote(environment['LUCIUS_BLOB_CONNECTION'])} "
    # double quotes, so that the shell replaces $TOKEN
    bearer = ' -H "Authorization: Bearer $TOKEN"' if ports.issuer else ""
    first = f"{shlex.join(login)}\n" if ports.issuer else ""
    return [shlex.join(curl) + bearer, first + storage + shlex.join(lucius)]


def _shown(path: Path) -> str:
    """Returns the path, relative to the current folder if that folder contains the path."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)
