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
    """Returns the id of the run that stored the package of a commit; None if no run stored it.

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
        print(f"kept_package: {args.commit} is not a whole commit id", file=sys.stderr)
        return 1
    repository, name = os.environ["GITHUB_REPOSITORY"], f"package-{args.environment}-{args.commit}"
    path = f"repos/{repository}/actions/artifacts?name={name}"
    listing = json.loads(subprocess.run(["gh", "api", path], check=True, capture_output=True, text=True).stdout)
    run = find(listing, args.commit)
    if run is None:
        print(
            f"kept_package: package not found: {args.commit} for {args.environment}; "
            "GitHub retains packages of main for 90 days; revert the commits after it instead",
            file=sys.stderr,
        )
        return 1
    download = ["gh", "run", "download", str(run), "--repo", repository, "--name", name, "--dir", str(args.folder)]
    subprocess.run(download, check=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
