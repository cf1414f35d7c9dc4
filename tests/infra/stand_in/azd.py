"""Emulates azd: an environment, and `up`, `provision`, `deploy` and `down` with the hooks of azure.yaml."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from tests.infra.stand_in import deployments
from tests.infra.stand_in.options import Refused
from tests.infra.stand_in.state import changing as changing_in


def changing() -> AbstractContextManager[dict[str, Any]]:
    return changing_in(Path(os.environ["AZURE_STAND_IN"]))


def _hook(name: str) -> None:
    """Runs a hook of azure.yaml with the environment's values. Raises Refused if it fails."""
    found = re.search(rf"^ +{name}:\n(?: +shell: .*\n)? +run: (.*)", Path("azure.yaml").read_text(), re.MULTILINE)
    if not found:
        return
    with changing() as state:
        values = dict(state["azd"])
    if subprocess.run(["sh", "-c", found[1]], env={**os.environ, **values}, check=False).returncode:
        raise Refused(f"'{name}' hook failed with exit code: '1'")


def _parameters() -> Path:
    """The parameter file that azure.yaml names."""
    (module,) = re.findall(r"(?m)^ +module: *(\S+)$", Path("azure.yaml").read_text())
    return Path("infra/bicep") / f"{module}.bicepparam"


def _provision() -> None:
    _hook("preprovision")
    with changing() as state:
        os.environ.update(state["azd"])
        state["azd"].update(deployments.deploy(state, _parameters(), os.environ))
    _hook("postprovision")


def _deploy() -> None:
    _hook("prepackage")
    with changing() as state:
        commit = Path(".lucius/package/BUILD_COMMIT")
        state["code"] = commit.read_text() if commit.exists() else None
    _hook("postdeploy")


def _down() -> None:
    _hook("predown")
    with changing() as state:
        state["deployed"], state["vaults"], state["registries"], state["images"] = None, [], [], []
        # the outputs of the template are deleted
        state["azd"].pop("LUCIUS_API_URL", None)
    _hook("postdown")


def _environment(arguments: list[str]) -> None:
    with changing() as state:
        match arguments:
            case ["new", name]:
                state["azd"] = {"AZURE_ENV_NAME": name, "AZURE_SUBSCRIPTION_ID": state["default"]}
                state["azd"]["AZURE_LOCATION"] = "westeurope"
            case ["set", name, value]:
                state["azd"][name] = value
            case ["get-values"]:
                for name, value in state["azd"].items():
                    print(f'{name}="{value}"')
            case _:
                raise Refused(f"unknown command: env {arguments}")


def main() -> int:
    with changing() as state:
        state["asked"].append(" ".join(["azd", *sys.argv[1:]]))
    try:
        match sys.argv[1:]:
            case ["env", *arguments]:
                _environment(arguments)
            case ["up"]:
                _provision()
                _deploy()
            case ["provision", *_]:
                _provision()
            case ["deploy"]:
                _deploy()
            case ["down", *_]:
                _down()
            case ["auth", "login"]:
                pass
            case _:
                raise Refused(f"unknown command: {sys.argv[1:]}")
    except Refused as error:
        print(f"ERROR: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
