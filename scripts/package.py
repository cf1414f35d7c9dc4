"""Makes the deployed package from the files that `.funcignore` does not name.

Flex Consumption installs the packages itself (remote build). Elastic Premium and App Service run the package unchanged,
so --packages adds the packages for Python 3.12.

The durable backend is that of LUCIUS_DURABLE_BACKEND or, if unset, of the parameter file. The scale controller reads
the backend in host.json only, so the package has the host.json of the backend.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from infra.checks.finding import CheckFailed  # noqa: E402
from infra.package import wheels  # noqa: E402  # not an installed package
from infra.package.durable_backend import HOST_JSON, chosen, parameter_file  # noqa: E402  # not an installed package
from infra.package.files import LOCK, packaged  # noqa: E402

#: the same name as in shared/build.py, which needs packages that a plain Python does not have
COMMIT_FILE = "BUILD_COMMIT"


def build(target: Path, *, backend: str, packages: bool) -> int:
    """Writes a zip, or a folder if `target` does not end in `.zip`. Returns the number of files. Raises CheckFailed."""
    files = {path: ROOT / path for path in packaged(ROOT) if path.name != COMMIT_FILE}
    files[Path("host.json")] = ROOT / HOST_JSON[backend]
    # the remote build installs only files with these hashes
    files[Path("requirements.txt")] = ROOT / LOCK
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if packages:
            site = _install(folder)
            files |= {path.relative_to(folder): path for path in sorted(site.rglob("*")) if path.is_file()}
        (folder / COMMIT_FILE).write_text(_commit(), encoding="utf-8")
        files[Path(COMMIT_FILE)] = folder / COMMIT_FILE
        (_zip if target.suffix == ".zip" else _copy)(target, files)
    return len(files)


def _zip(target: Path, files: dict[Path, Path]) -> None:
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, path in files.items():
            archive.write(path, name)


def _copy(target: Path, files: dict[Path, Path]) -> None:
    """Copies the files. Overwrites nothing but a package. Raises CheckFailed."""
    whole = target.resolve()
    if whole in (ROOT, *ROOT.parents) or (whole.exists() and not (whole / "host.json").is_file()):
        raise CheckFailed(f"{target} is not a package; name a new folder")
    shutil.rmtree(whole, ignore_errors=True)
    for name, path in files.items():
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, target / name)


def _install(folder: Path) -> Path:
    """Installs the packages of the lock for the deployed platform, not for this machine. Raises CheckFailed."""
    site = folder / ".python_packages" / "lib" / "site-packages"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(site)]
    if subprocess.run([*pip, *wheels.options(wheels.HOST), "-r", LOCK], cwd=ROOT, check=False).returncode:
        raise CheckFailed(f"pip could not install {LOCK}; the lines above have the reason")
    return site


def _commit() -> str:
    """Returns the commit for the health routes, from this checkout or else from LUCIUS_BUILD_COMMIT. Raises
    CheckFailed.
    """
    try:
        # a folder inside another checkout would have the commit of that checkout
        _git("ls-files", "--error-unmatch", "host.json")
        return _git("rev-parse", "HEAD")
    except (FileNotFoundError, subprocess.CalledProcessError):
        commit = os.environ.get("LUCIUS_BUILD_COMMIT", "")
    if not commit:
        raise CheckFailed("not a git checkout, or git is missing; set LUCIUS_BUILD_COMMIT (azd env set)")
    return commit


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("target", type=Path, help=".zip file to write, or folder to replace")
    parser.add_argument(
        "--parameters", type=Path, help="parameter file of the template (default: the file in azure.yaml)"
    )
    parser.add_argument(
        "--packages", action="store_true", help="include the packages, for Elastic Premium and App Service"
    )
    args = parser.parse_args(argv)
    try:
        backend = chosen(args.parameters or parameter_file(ROOT), os.environ)
        count = build(args.target, backend=backend, packages=args.packages)
    except CheckFailed as failed:
        print(f"package: {failed}", file=sys.stderr)
        return 1
    print(f"{args.target}: {count} files for {backend}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
