"""Makes the zip that is deployed: what `.funcignore` leaves, and with --packages the packages for Python 3.12.

Flex Consumption installs the packages itself (remote build); Elastic Premium runs the zip as it is, so they are in it.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from infra.checks.package_files import packaged  # noqa: E402  # the repository is not an installed package

#: as in shared/build.py, which needs packages that a plain Python does not have
COMMIT_FILE = "BUILD_COMMIT"


def build(target: Path, *, packages: bool) -> int:
    """Writes the zip. Returns the number of files in it."""
    files = [(ROOT / path, path) for path in packaged(ROOT) if path.name != COMMIT_FILE]
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        if packages:
            site = Path(folder) / ".python_packages" / "lib" / "site-packages"
            pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(site)]
            # wheels of the platform that runs them, not of this machine
            target_platform = [
                "--platform",
                "manylinux2014_x86_64",
                "--python-version",
                "3.12",
                "--only-binary",
                ":all:",
            ]
            subprocess.run(
                [*pip, *target_platform, "-r", "requirements.txt", "-c", "constraints.txt"], cwd=ROOT, check=True
            )
            files += [(path, path.relative_to(folder)) for path in sorted(site.rglob("*")) if path.is_file()]
        for path, name in files:
            archive.write(path, name)
        if commit := _commit():
            archive.writestr(COMMIT_FILE, commit)
    return len(files)


def _commit() -> str:
    """The commit that the health routes report; empty outside a checkout."""
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    return commit.stdout.strip()


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("target", type=Path, help="the zip to write")
    parser.add_argument("--packages", action="store_true", help="with the packages, for Elastic Premium")
    args = parser.parse_args(argv)
    count = build(args.target, packages=args.packages)
    print(f"{args.target}: {count} files, {args.target.stat().st_size / 1e6:.1f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
