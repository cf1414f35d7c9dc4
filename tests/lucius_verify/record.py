"""`python -m tests.lucius_verify.record`: records the outcomes of many occurrences by the present rules, in
`recorded/`.

A recording is made once for a number of `shared.core.jobs.history.RULES` and never changed. If a change of the rules
makes `test_rules` fail, raise RULES, then record. Before the tag v0.3.0, delete the file and record it again instead
(docs/decisions/0058-histories-are-executed-again.md).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from lucius_verify.writer import write_bundle
from shared.api.audit import bundle
from shared.core.jobs.history import RULES
from shared.core.jobs.plan import make_tombstone
from tests.jobs import START
from tests.lucius_verify.walks import Document, walks

RECORDED = Path(__file__).parent / "recorded"
MANIFEST = {
    "tenant": "tenant_a",
    "since": "2026-01-27T00:00:00Z",
    "until": "2026-01-28T00:00:00Z",
    "created_at": "2026-01-28T00:00:00Z",
    "program": "tests",
}
_WALKS = 900


def file(rules: int) -> Path:
    return RECORDED / f"rules.{rules}.tar.gz"


def kinds(event: dict[str, Any]) -> tuple[Any, ...]:
    """Returns the new properties of an event, for a corpus that has each of them."""
    rows = [row.partition(" ")[2] if row.startswith("step:") else row for row in event["data"].get("transitions", ())]
    return (event["type"], event["reason"] if event["type"] == "REPLY_IGNORED" else None, *rows)


def withdrawn() -> Document:
    record, event = make_tombstone("job_none", tenant="tenant_a", claim="0", created_at=START, now=START, salt="00")
    written: Document = json.loads(json.dumps(bundle(record, [event], START)))
    return written


def chosen(documents: list[Document]) -> list[Document]:
    """Those of which events are new, most of them for their length first; and the jobs that they are redrives of."""
    left = {each["job"]["job_id"]: {kinds(event) for event in each["events"]} for each in documents}
    by_id = {each["job"]["job_id"]: each for each in documents}
    taken: set[str] = set()
    while True:
        job_id = max(left, key=lambda each: len(left[each]) / len(by_id[each]["events"]))
        if not (found := left[job_id]):
            return [by_id[each] for each in sorted(taken)]
        taken |= {job_id, by_id[job_id]["job"].get("redrive_of", job_id)}
        left = {each: kept - found for each, kept in left.items()}


def main() -> None:
    if file(RULES).exists():
        raise SystemExit(f"{file(RULES)} is there: a recording is never changed; raise RULES")
    RECORDED.mkdir(exist_ok=True)
    documents = sorted([*chosen(walks(_WALKS)), withdrawn()], key=lambda each: each["job"]["job_id"])
    print(write_bundle(file(RULES), manifest=MANIFEST, jobs=documents, with_content=True)["totals"])


if __name__ == "__main__":
    main()
