"""Checks, by `gh`, that only main is deployed to environments of GitHub, and prod only after a review.

An account with the right to push a branch can add a workflow to the branch that takes the token of an environment.
GitHub gives the token unless the environment names the branches. The script needs a token that can read Actions
(docs/guides/pipelines.md, Branch policies).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from typing import Any

#: environments in which a person must approve a deployment
REVIEWED = ("prod",)


def wrong(name: str, environment: dict[str, Any], policies: dict[str, Any]) -> str | None:
    """Returns the error in the protection of an environment, or None if there is no error.

    Both parameters are responses of the REST API.

    https://docs.github.com/rest/deployments/environments and .../rest/deployments/branch-policies
    """
    policy = environment.get("deployment_branch_policy") or {}
    if not policy.get("custom_branch_policies"):
        return f"{name}: every branch, or every protected branch, can deploy"
    branches = [(each["name"], each.get("type", "branch")) for each in policies.get("branch_policies", [])]
    if branches != [("main", "branch")]:
        allowed = ", ".join(f"{kind} {each}" for each, kind in branches) or "no branch"
        return f"{name}: the policy allows {allowed}; allow only the branch main"
    rules = [rule["type"] for rule in environment.get("protection_rules", [])]
    if name in REVIEWED and "required_reviewers" not in rules:
        return f"{name}: no review is required before a deployment"
    return None


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("environments", nargs="+", metavar="environment")
    args = parser.parse_args(argv)
    repository = os.environ.get("GITHUB_REPOSITORY")
    if not repository:
        print("github_environments: GITHUB_REPOSITORY is not set: export GITHUB_REPOSITORY=OWNER/REPO", file=sys.stderr)
        return 2
    found = []
    for name in args.environments:
        try:
            path = f"repos/{repository}/environments/{name}"
            environment = _get(path)
            policy = environment.get("deployment_branch_policy") or {}
            policies = _get(f"{path}/deployment-branch-policies") if policy.get("custom_branch_policies") else {}
            found.append(wrong(name, environment, policies))
        except subprocess.CalledProcessError as failed:
            found.append(
                f"{name}: gh cannot read the environment ({(failed.stderr.strip().splitlines() or ['no output'])[-1]})"
            )
    problems = [each for each in found if each]
    for each in problems:
        print(f"github_environments: {each}: docs/guides/pipelines.md, Branch policies", file=sys.stderr)
    return 1 if problems else 0


def _get(path: str) -> dict[str, Any]:
    done = subprocess.run(["gh", "api", path], check=True, capture_output=True, text=True)
    content: dict[str, Any] = json.loads(done.stdout)
    return content


if __name__ == "__main__":
    sys.exit(main())
