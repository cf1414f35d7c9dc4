"""Microsoft's Bicep compiler, in one process for all files: diagnostics, format, and the resources of a deployment.

The process is `bicep jsonrpc --stdio` (https://github.com/Azure/bicep, src/Bicep.Cli/Rpc), with no network and with
fixed values of the environment variables that parameter files read.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from infra.checks.finding import CheckFailed, Finding

#: version that made the snapshots and the table of planted mistakes
VERSION = "0.49.2"
INSTALL = f"az bicep install --version v{VERSION}, then set BICEP to ~/.azure/bin/bicep"
SUBSCRIPTION = "00000000-0000-0000-0000-000000000001"
_TENANT = "00000000-0000-0000-0000-000000000002"
#: parameters that include each optional resource in a snapshot and give each principal a different name
_ENVIRONMENT = {
    "AZURE_PRINCIPAL_ID": "operator",
    "LUCIUS_SMOKE_PRINCIPAL_ID": "smoke",
    "LUCIUS_AUTH_AUDIENCE": "audience",
    "LUCIUS_ALERT_EMAILS": "operators@example.com",
    "LUCIUS_SERVICE_TAG": "1",
    "LUCIUS_VAULT": "true",
    "LUCIUS_MONTHLY_BUDGET": "100",
    "LUCIUS_MONTHLY_BUDGET_START": "2026-11-01",
    # without the stages of .NET's compiler a run takes half of the CPU
    "DOTNET_TieredCompilation": "0",
    # .NET collects garbage rarely, and without a background thread
    "DOTNET_gcConcurrent": "0",
    "DOTNET_GCgen0size": "0x8000000",
}


def find(environ: Mapping[str, str] = os.environ) -> str | None:
    """Returns the program that `$BICEP` names or, if `$BICEP` is unset, `bicep` on PATH. Returns None if that program
    does not exist.
    """
    return shutil.which(environ.get("BICEP") or "bicep", path=environ.get("PATH"))


class Compiler:
    """One process of the compiler, as a context manager. Methods raise CheckFailed if the process fails."""

    def __init__(self, program: str | None = None) -> None:
        """Starts the program, by default the one of `find`.

        Raises CheckFailed if the program is missing or has another version.
        """
        program = program or find()
        if program is None:
            named = os.environ.get("BICEP")
            missing = f"BICEP is {named}, which is not a program" if named else "bicep is not on PATH"
            raise CheckFailed(f"{missing}; run {INSTALL}")
        self._home = tempfile.TemporaryDirectory(prefix="bicep-")
        environment = {"PATH": os.environ.get("PATH", ""), "HOME": self._home.name, **_ENVIRONMENT}
        try:
            self._process = subprocess.Popen(
                [program, "jsonrpc", "--stdio"],
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
        except OSError as error:
            self._home.cleanup()
            raise CheckFailed(f"{program}: {error.strerror}") from error
        self._number = 0
        try:
            version = self._call("version")["version"]
            if version != VERSION:
                raise CheckFailed(f"{program} is version {version}, not {VERSION}; run {INSTALL}")
        except CheckFailed:
            self.close()
            raise

    def __enter__(self) -> Compiler:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the process."""
        self._process.kill()
        self._process.communicate()
        self._home.cleanup()

    def check(self, path: Path) -> list[Finding]:
        """Returns the diagnostics of compiler and linter for a template or parameter file and files that it uses."""
        if path.suffix == ".bicepparam":
            result = self._call("compileParams", path=str(path), parameterOverrides={})
        else:
            result = self._call("compile", path=str(path))
        return [
            Finding(Path(each["source"]), each["range"]["start"]["line"] + 1, each["code"], each["message"])
            for each in result["diagnostics"]
        ]

    def template(self, path: Path) -> dict[str, Any]:
        """Returns a template without errors as the JSON that Resource Manager accepts."""
        content: dict[str, Any] = json.loads(self._call("compile", path=str(path))["contents"])
        return content

    def format(self, path: Path) -> list[Finding]:
        """Returns a finding if `bicep format` would change the file. `check` reports a file that is not Bicep."""
        written = path.read_text(encoding="utf-8").split("\n")
        formatted = self._call("format", path=str(path))["contents"].split("\n")
        if written == formatted:
            return []
        pairs = enumerate(zip(written, formatted, strict=False), start=1)
        line = next((number for number, (ours, theirs) in pairs if ours != theirs), min(len(written), len(formatted)))
        return [Finding(path, line, "format", f"is not formatted: bicep format {path.name}")]

    def snapshot(self, path: Path) -> list[dict[str, Any]]:
        """Returns the resources that a deployment of a valid parameter file creates, with evaluated properties."""
        deployment = {
            "tenantId": _TENANT,
            "subscriptionId": SUBSCRIPTION,
            "location": "westeurope",
            "deploymentName": "lucius",
        }
        content = json.loads(self._call("getSnapshot", path=str(path), metadata=deployment)["snapshot"])
        found: list[dict[str, Any]] = content["predictedResources"]
        return found

    def _call(self, method: str, **parameters: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._number += 1
        request = {"jsonrpc": "2.0", "id": self._number, "method": f"bicep/{method}", "params": parameters}
        body = json.dumps(request).encode()
        try:
            self._process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
            self._process.stdin.flush()
            length = 0
            while line := self._process.stdout.readline().strip():
                name, _, value = line.partition(b":")
                length = int(value) if name.lower() == b"content-length" else length
            answer = json.loads(self._process.stdout.read(length))
        except (OSError, ValueError) as error:
            path = parameters.get("path")
            raise CheckFailed(
                f"the compiler sent no valid response to {method}"
                + (f": {path}; run `bicep build` on the file" if path else f"; run {INSTALL}")
            ) from error
        if "result" not in answer:
            raise CheckFailed(
                f"{parameters.get('path', method)}: the compiler says: {answer['error']['message'][:200]}"
            )
        result: dict[str, Any] = answer["result"]
        return result
