"""The package as it would be deployed: built by Azure's rules, started on Python 3.12 under the local host."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from infra.checks import environment
from infra.checks.failure import CheckFailed
from infra.checks.package_files import packaged

#: Flex Consumption takes packages up to 1 GB; far below that, a cold start gets slow
MOST_BYTES = 300 * 1024 * 1024


@dataclass(frozen=True)
class Built:
    """`app` holds the code and, as the remote build leaves them, the packages in `.python_packages`."""

    app: Path
    python: Path
    code_bytes: int
    package_bytes: int

    def __str__(self) -> str:
        return f"code {self.code_bytes / 1e6:.1f} MB, packages {self.package_bytes / 1e6:.1f} MB"


def build(root: Path, target: Path) -> Built:
    """Copies what `.funcignore` leaves and resolves requirements.txt for 3.12. Raises CheckFailed."""
    app = target / "app"
    for path in packaged(root):
        (app / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(root / path, app / path)
    requirements, pins = root / "requirements.txt", root / "constraints.txt"
    bin_ = environment.made(
        root,
        "package",
        environment.python312(),
        *("-r", str(requirements)),
        files=(requirements, pins),
    )
    (site,) = (bin_.parent / "lib").glob("python3.12/site-packages")
    packages = app / ".python_packages" / "lib" / "site-packages"
    packages.parent.mkdir(parents=True)
    packages.symlink_to(site)
    built = Built(app, bin_ / "python", _bytes(app), _bytes(site))
    if built.package_bytes > MOST_BYTES:
        raise CheckFailed(f"the package is larger than {MOST_BYTES // 1024 // 1024} MB: {built}")
    return built


def start(root: Path, built: Built, data: Path) -> list[str]:
    """Starts the package under the local host and bus; the names of its functions. Raises CheckFailed.

    The interpreter has the deployed packages only. What the host itself needs comes after them on the path, so that a
    package that the app needs and requirements.txt forgot is not found by accident where the host has no use for it.
    """
    host_needs = environment.made(
        root, "host", environment.python312(), *_host_requirements(root), "-c", str(root / "constraints.txt")
    )
    (host_site,) = (host_needs.parent / "lib").glob("python3.12/site-packages")
    emulator = data / "emulator-only"
    emulator.mkdir(parents=True)
    (emulator / "emulator").symlink_to(root / "emulator")
    path = os.pathsep.join((str(emulator), str(host_site)))
    with _serving(
        built, path, "bus", "--config", str(root / "infra/bus/Config.json"), "--port", "0", "--admin-port", "0"
    ) as bus:
        settings = {
            "LUCIUS_SERVICEBUS_CONNECTION": (
                f"Endpoint={bus};SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey=SAS_KEY_VALUE;"
                "UseDevelopmentEmulator=true;"
            ),
            "LUCIUS_STORAGE_BACKEND": "memory",
        }
        arguments = ("host", "--app", str(built.app), "--port", "0", "--data", str(data))
        with _serving(built, path, *arguments, settings=settings) as api:
            with urllib.request.urlopen(f"{api}/v1/health/live", timeout=60) as answer:
                if answer.status != 200:
                    raise CheckFailed(f"the started package answers {answer.status} on /v1/health/live")
            with urllib.request.urlopen(f"{api}/admin/functions", timeout=60) as answer:
                return sorted(each["name"] for each in json.load(answer))


@contextmanager
def _serving(built: Built, path: str, *arguments: str, settings: dict[str, str] | None = None) -> Iterator[str]:
    """The address of its ready line."""
    clean = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), "PYTHONPATH": path}
    process = subprocess.Popen(
        [str(built.python), "-m", "emulator", *arguments],
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
            said = process.stderr.read().strip().splitlines() or ["nothing"]
            raise CheckFailed(f"the package does not start on Python 3.12 ({arguments[0]}): {said[-1]}")
        yield words[1]
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)


def _host_requirements(root: Path) -> list[str]:
    """The lines of requirements-dev.txt below `# emulators`."""
    text = (root / "requirements-dev.txt").read_text()
    section = re.search(r"^# emulators\n(.*?)^#", text, re.MULTILINE | re.DOTALL)
    assert section is not None
    return [line.split("#")[0].strip() for line in section[1].splitlines() if line.strip()]


def _bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
