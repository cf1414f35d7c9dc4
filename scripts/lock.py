"""Writes the hashes of the deployed packages, and of those in the images of the reference services (`make lock`).

pip resolves the versions of constraints.txt for the deployed Python 3.12, and reports the files to install. Only wheels
are allowed, since the build of another package fetches tools without hashes.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from infra.checks.finding import CheckFailed  # noqa: E402
from infra.package import environment, wheels  # noqa: E402  # not an installed package

#: platforms on which `python -m infra.checks --all` starts the package, besides Linux on x86-64
_CHECKED = (wheels.linux("aarch64"), ("macosx_14_0_arm64",))


@dataclass(frozen=True)
class Lock:
    """A file that is made from requirements.txt and groups of pyproject.toml, with the files of each platform."""

    target: Path
    groups: tuple[str, ...]
    platforms: tuple[tuple[str, ...], ...]


LOCKS = (
    Lock(ROOT / "requirements.lock", (), (wheels.HOST, *_CHECKED)),
    Lock(ROOT / "requirements-demo.lock", ("demo",), (wheels.HOST,)),
)


def text(lock: Lock) -> str:
    """Returns the content of a lock, with the version of each package and the SHA-256 of its files. Raises
    CheckFailed.
    """
    found: dict[str, set[str]] = {}
    for platform in lock.platforms:
        for package in _resolved(lock.groups, platform):
            pin = f"{package['metadata']['name'].lower()}=={package['metadata']['version']}"
            found.setdefault(pin, set()).add(package["download_info"]["archive_info"]["hashes"]["sha256"])
    groups = "".join(f", the group {group} of pyproject.toml" for group in lock.groups)
    lines = [
        f"# Made of requirements.txt{groups} and constraints.txt by `make lock`, for Python 3.12.",
        "--require-hashes",
        "--only-binary :all:",
    ]
    for pin, hashes in sorted(found.items()):
        lines.append(" \\\n".join([pin, *(f"    --hash=sha256:{each}" for each in sorted(hashes))]))
    return "\n".join(lines) + "\n"


def _resolved(groups: tuple[str, ...], platform: tuple[str, ...]) -> list[dict[str, Any]]:
    """Returns the packages that pip selects for installation
    (https://pip.pypa.io/en/stable/reference/installation-report/).

    Raises CheckFailed.
    """
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(environment.python312())]
        named = ["-r", "requirements.txt", *(option for group in groups for option in ("--group", group))]
        options = ["--dry-run", "--ignore-installed", "--quiet", "--report", str(report)]
        done = subprocess.run(
            [*pip, "install", *options, *wheels.options(platform), *named, "-c", "constraints.txt"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise CheckFailed(
                f"{' '.join(named)} for {platform[0]}: {(done.stderr.strip().splitlines() or ['no output'])[-1]}"
            )
        installed: list[dict[str, Any]] = json.loads(report.read_text(encoding="utf-8"))["install"]
        return installed


def main() -> int:
    try:
        for lock in LOCKS:
            lock.target.write_text(text(lock), encoding="utf-8")
            print(lock.target.name)
    except CheckFailed as failed:
        print(f"lock: {failed}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
