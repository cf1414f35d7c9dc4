"""Builds the package by Azure's rules, and starts it on Python 3.12 under the Functions emulator."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tomllib
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infra.checks.finding import CheckFailed
from infra.package import environment
from infra.package.files import LOCK, packaged

#: Flex Consumption accepts packages up to 1 GB; cold starts get slow far below that
MOST_BYTES = 300 * 1024 * 1024
#: packages that run the app here, with the extras of its bindings
_EMULATORS = {"servicebus-emulator": (), "functions-emulator": ("azure",)}


@dataclass(frozen=True)
class Built:
    """A built package. `app` contains the code and, as the remote build leaves them, the packages in
    `.python_packages`.

    `environment` is a virtual environment with these packages and no other.
    """

    app: Path
    environment: Path
    code_bytes: int
    package_bytes: int

    def __str__(self) -> str:
        return f"code {self.code_bytes / 1e6:.1f} MB, packages {self.package_bytes / 1e6:.1f} MB"


def build(root: Path, target: Path) -> Built:
    """Copies the files that `.funcignore` does not name, and installs the lock on 3.12. Raises CheckFailed."""
    app = target / "app"
    for path in packaged(root):
        (app / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(root / path, app / path)
    lock, python = root / LOCK, environment.python312()
    shutil.copy2(lock, app / "requirements.txt")
    installed = environment.made(root, "package", python, "-r", str(lock), files=(lock,))
    site = environment.site_packages(installed)
    packages = app / ".python_packages" / "lib" / "site-packages"
    packages.parent.mkdir(parents=True)
    packages.symlink_to(site)
    built = Built(app, installed, _bytes(app), _bytes(site))
    if built.package_bytes > MOST_BYTES:
        raise CheckFailed(f"the packages are larger than {MOST_BYTES / 1e6:.0f} MB: {built}")
    return built


def start(root: Path, built: Built, data: Path) -> list[str]:
    """Starts the package under the emulators. Returns the names of its functions. Raises CheckFailed.

    The interpreter has the deployed packages only. Packages of the emulators that the package lacks precede them on the
    path. A package that the app needs and the lock lacks is therefore missing here too, unless the emulators need it.
    """
    pins = root / "constraints.txt"
    requirements = (*_requirements(root), "-c", str(pins))
    needs = environment.made(
        root, "emulators", environment.python312(), *requirements, files=(pins,), over=built.environment
    )
    path = os.pathsep.join(
        map(str, (*(root / "packages" / name for name in _EMULATORS), environment.site_packages(needs)))
    )
    entities = ("--config", str(root / "infra/bus/Config.json"), "--port", "0", "--admin-port", "0")
    with _serving(built, path, "servicebus_emulator", *entities) as bus:
        settings = {
            "LUCIUS_SERVICEBUS_CONNECTION": (
                f"Endpoint={bus};SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey=SAS_KEY_VALUE;"
                "UseDevelopmentEmulator=true;"
            ),
            "LUCIUS_STORAGE_BACKEND": "memory",
            "LUCIUS_AUTH_MODE": "none",
            "TASKHUB_NAME": "lucius",
        }
        options = ("--app", str(built.app), "--port", "0", "--data", str(data), "--no-keys")
        with _serving(built, path, "functions_emulator", *options, settings=settings) as api:
            _ask(f"{api}/v1/health/live")
            # this request imports modules that the start does not import
            _ask(f"{api}/v1/graphql", b'{"query": "{ __typename }"}')
            return sorted(function["name"] for function in _ask(f"{api}/admin/functions"))


def _ask(address: str, body: bytes | None = None) -> Any:
    """Returns the JSON of a response. Raises CheckFailed if the request fails or the body is not JSON."""
    request = urllib.request.Request(address, body, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            return json.load(response)
    except (OSError, ValueError) as error:
        raise CheckFailed(f"the started package does not serve {address}: {error}") from error


@contextmanager
def _serving(
    built: Built, path: str, module: str, *options: str, settings: dict[str, str] | None = None
) -> Iterator[str]:
    """Runs the module's command, and yields the URL in its ready line."""
    clean = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), "PYTHONPATH": path}
    process = subprocess.Popen(
        [str(built.environment / "bin" / "python"), "-m", module, *options],
        cwd=built.app,
        env={**clean, **(settings or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        words = process.stdout.readline().split()
        if len(words) < 2:
            process.kill()
            lines = process.stderr.read().strip().splitlines() or ["no output"]
            raise CheckFailed(f"the package does not start on Python 3.12 ({module}): {lines[-1]}")
        yield words[1]
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)


def _requirements(root: Path) -> list[str]:
    """Returns the requirements in the pyproject files of the emulators."""
    requirements = []
    for name, extras in _EMULATORS.items():
        project = tomllib.loads((root / "packages" / name / "pyproject.toml").read_text())["project"]
        requirements += project["dependencies"]
        for extra in extras:
            requirements += project["optional-dependencies"][extra]
    return requirements


def _bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
