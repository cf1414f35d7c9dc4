"""Emulates `scripts/smoke.py`: a job SUCCEEDED if there are an app, a role of its caller, and each service."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

SERVICES = {"ocr", "embedding", "sis"}


def main() -> int:
    state = json.loads(Path(os.environ["AZURE_STAND_IN"]).read_text())
    deployed = state["deployed"] or {}
    if not deployed or not state.get("code"):
        print("smoke: the API does not respond", file=sys.stderr)
        return 3
    if not state["grants"]:
        print("POST /v1/orchestrate: HTTP 403: SCOPE_MISSING", file=sys.stderr)
        return 1
    if SERVICES - {*deployed["container_apps"]}:
        print("job_1 is QUEUED: ACK_TIMEOUT", file=sys.stderr)
        return 1
    print("SUCCEEDED: ocr SUCCEEDED, embedding SUCCEEDED, sis SUCCEEDED")
    return 0


if __name__ == "__main__":
    sys.exit(main())
