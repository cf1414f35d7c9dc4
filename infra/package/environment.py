"""Virtual environments of the checks, separate from the project's environment. The checks create each environment once,
under `.lucius/checks`.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from infra.checks.finding import CheckFailed

DEPLOYED = (3, 12)


def find_python312() -> Path | None:
    """Returns the interpreter of the deployed version, or None if the machine has none."""
    return next((candidate for candidate in _candidates() if _version(candidate) == DEPLOYED), None)


def python312() -> Path:
    """Returns the interpreter of the deployed version. Raises CheckFailed with the command to install it."""
    found = find_python312()
    if found is None:
        raise CheckFailed(
            "python3.12 not found; put python3.12, the deployed version, on PATH (uv python install 3.12, "
            "pyenv install 3.12 or apt-get install python3.12)"
        )
    return found


def made(
    root: Path, name: str, python: Path, *requirements: str, files: tuple[Path, ...] = (), over: Path | None = None
) -> Path:
    """Returns the folder of an environment with the requirements. Creates the environment again if the requirements or
    the files changed.

    `over` is the folder of another environment, whose packages the new environment uses and does not install. Raises
    CheckFailed with the last line of the failed command.
    """
    digest = hashlib.sha256("\0".join((str(python), str(over), *requirements)).encode())
    for file in files:
        digest.update(file.read_bytes())
    folder = root / ".lucius" / "checks" / f"{name}-{digest.hexdigest()[:16]}"
    if (folder / "made").exists():
        return folder
    for earlier in folder.parent.glob(f"{name}-*"):
        shutil.rmtree(earlier, ignore_errors=True)
    # pip and bytecode of every module would take longer than all other steps
    _run(name, [str(python), "-m", "venv", "--without-pip", str(folder)])
    if over is not None:
        (site_packages(folder) / "over.pth").write_text(f"{site_packages(over)}\n")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(folder / "bin" / "python")]
    _run(name, [*pip, "install", "-q", "--no-compile", *requirements])
    (folder / "made").touch()
    return folder


def site_packages(environment: Path) -> Path:
    (folder,) = (environment / "lib").glob("python3.*/site-packages")
    return folder


def _run(name: str, command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        lines = (done.stderr or done.stdout).strip().splitlines() or ["no output"]
        raise CheckFailed(f"could not make the environment {name}: {lines[-1]}")


def _candidates() -> Iterator[Path]:
    if sys.version_info[:2] == DEPLOYED:
        yield Path(sys.executable).resolve()
    on_path = shutil.which("python3.12")
    if on_path:
        yield Path(on_path)
    pyenv = shutil.which("pyenv")
    for root in [Path(pyenv).resolve().parents[1]] if pyenv else []:
        yield from sorted((root / "versions").glob("3.12*/bin/python"), reverse=True)
    yield from sorted((Path.home() / ".pyenv" / "versions").glob("3.12*/bin/python"), reverse=True)
    yield from sorted((Path.home() / ".local" / "share" / "uv" / "python").glob("cpython-3.12*/bin/python3.12"))


def _version(python: Path) -> tuple[int, ...] | None:
    """Returns the version of an interpreter, or None for a broken shim."""
    shown = subprocess.run(
        [str(python), "-c", "import sys, venv; print(*sys.version_info[:2])"],
        capture_output=True,
        text=True,
        check=False,
    )
    return tuple(int(part) for part in shown.stdout.split()) if shown.returncode == 0 else None
