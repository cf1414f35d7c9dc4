"""Fetches the package of an earlier deployment, by `gh`, so that a second deployment uses the tested package."""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any


def find(listing: dict[str, Any], commit: str) -> int | None:
    """Returns the id of the run that has the package of a commit, or None if no run has the package.

    Accepts only runs of this repository's main, since any author of a pull request can store a file in a run.
    """
    for artifact in listing["artifacts"]:
        run = artifact["workflow_run"]
        of_main = run["head_branch"] == "main" and run["head_repository_id"] == run["repository_id"]
        if of_main and run["head_sha"] == commit and not artifact["expired"]:
            return int(run["id"])
    return None


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("environment", help="environment of the earlier deployment")
    parser.add_argument("commit", help="commit of the package (40 digits)")
    parser.add_argument("folder", type=Path, help="folder for released-package.zip")
    args = parser.parse_args(argv)
    if not re.fullmatch(r"[0-9a-f]{40}", args.commit):
        return _refuse(f"invalid commit {args.commit!r}: give all 40 hexadecimal digits")
    repository, name = os.environ.get("GITHUB_REPOSITORY"), f"package-{args.environment}-{args.commit}"
    if not repository:
        return _refuse("GITHUB_REPOSITORY is not set: export GITHUB_REPOSITORY=OWNER/REPO")
    try:
        run = find(json.loads(_gh("api", f"repos/{repository}/actions/artifacts?name={name}")), args.commit)
        if run is None:
            return _refuse(
                f"package not found: {args.commit} for {args.environment}; "
                "GitHub retains packages of main for 90 days; revert the later commits instead"
            )
        _gh("run", "download", str(run), "--repo", repository, "--name", name, "--dir", str(args.folder))
    except (OSError, subprocess.CalledProcessError) as failed:
        return _refuse(f"gh cannot fetch the package: {failed}; check that gh is installed and signed in")
    return 0


def _gh(*arguments: str) -> str:
    """Returns the output of `gh`. Its errors go to stderr."""
    return subprocess.run(["gh", *arguments], check=True, stdout=subprocess.PIPE, text=True).stdout


def _refuse(reason: str) -> int:
    print(f"kept_package: {reason}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
