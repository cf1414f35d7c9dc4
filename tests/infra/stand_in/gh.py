"""Emulates gh: environments of a repository, with their branch policies and reviewers, by `gh api`."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

from tests.infra.stand_in.state import changing


def _answer(environments: dict[str, Any], method: str, path: str, fields: dict[str, str]) -> Any:
    """None: there is no such environment, or nothing of it."""
    named = re.fullmatch(r"repos/owner/repo/environments/([\w-]+)(/deployment-branch-policies)?", path)
    if named is None:
        return None
    name, policies = named[1], bool(named[2])
    if method == "PUT" and not policies:
        flags = {
            key: fields.get(f"deployment_branch_policy[{key}]") == "true"
            for key in ("protected_branches", "custom_branch_policies")
        }
        rules = [{"type": "required_reviewers"}] if "reviewers[][id]" in fields else []
        environments[name] = {"deployment_branch_policy": flags, "protection_rules": rules, "policies": []}
    if name not in environments:
        return None
    if method == "POST" and policies:
        environments[name]["policies"].append({"name": fields["name"], "type": fields.get("type", "branch")})
    return {"branch_policies": environments[name]["policies"]} if policies else environments[name]


def main() -> int:
    words, fields, options = sys.argv[1:], {}, {"--method": "GET"}
    assert words.pop(0) == "api"
    path = ""
    while words:
        word = words.pop(0)
        if word in ("-f", "-F"):
            key, _, value = words.pop(0).partition("=")
            fields[key] = value
        elif word == "--method":
            options[word] = words.pop(0)
        elif word != "--silent":
            path = word
    with changing(Path(os.environ["AZURE_STAND_IN"])) as state:
        answer = _answer(state["environments"], options["--method"], path, fields)
    if answer is None:
        print("gh: Not Found (HTTP 404)", file=sys.stderr)
        return 1
    print(json.dumps(answer))
    return 0


if __name__ == "__main__":
    sys.exit(main())
