"""docs/contributing/stored-rows.md: each stored row and blob has its retention and an existing module."""

from __future__ import annotations

import ast
import json
import re
from collections import Counter

from shared.adapters.tables.purging import RULES
from tests.jobs import ROOT

PAGE = ROOT / "docs" / "contributing" / "stored-rows.md"
KEYS = ROOT / "shared" / "adapters" / "tables" / "keys.py"
OPERATIONS = ROOT / "shared" / "operations"
#: one kind of row, for any key, by the shape of the partition or the blob's path
WHOLE = {
    r"19700101|tenant_\{hex\}": "rejected",
    r"tenants": "tenants",
    r"=feeds": "=feeds",
    r"asks": "asks",
    r"bulks": "bulks",
    r"=hooks": "=hooks",
}
BLOBS = {
    r"(days|parts|keys)/.*\.jsonl?": "KEPT/...",
    r"19700101/.*": "DAY/...",
    r"https://.*/workspace/.*": "workspace/...",
    r"job_1/.*": "JOB/...",
    r"tenant_a/\d{6}/.*\..*\.json": "TENANT/MONTH/JOB.DIGEST.json",
}
#: of a partition that is a tenant's or a job's
OWN = {"tenant_a", "job_1"}


def table() -> list[list[str]]:
    """The cells of the page's table, without its head."""
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in lines[1:]]


def named() -> Counter[str]:
    """Returns the names in the table's first column; blobs follow the word."""
    return Counter(
        f"{'blob ' if blob else ''}{name}" for row in table() for blob, name in re.findall(r"(blob )?`([^`]+)`", row[0])
    )


def stored() -> set[str]:
    """Kinds of rows and blobs, of the promised names and of the functions that make keys."""
    promised = json.loads((ROOT / "tests" / "promised_names.json").read_text())
    found = {f"blob {_of(path, BLOBS)}" for path in promised["blob paths"]}
    for each in promised["row keys"]:
        partition, row = each.split(" | ")
        whole = _of(partition, WHOLE)
        word = row.split(":")[0]
        found.add(whole or (word if partition in OWN else f"{partition} {word}"))
    return found | _in_code()


#: first words of keys of shared partitions
_SHARED = {"REFOLD": "=guard REFOLD", "MINUTE": "=minutes MINUTE", "PROTOCOL": "protocols PROTOCOL"}


def _in_code() -> set[str]:
    """First words of the keys that keys.py makes, of rows beside a tenant's; the promised names do not have all."""
    texts = [
        part.value
        for node in ast.walk(ast.parse(KEYS.read_text()))
        if isinstance(node, ast.JoinedStr)
        for part in node.values[:1]
        if isinstance(part, ast.Constant)
    ]
    words = {found[1] for text in texts if (found := re.match(r"([A-Z]+):", text))}
    return {_SHARED.get(word, word) for word in words} | {"=hooks"}


def _of(name: str, kinds: dict[str, str]) -> str:
    return next((kind for shape, kind in kinds.items() if re.fullmatch(shape, name)), "")


def test_every_stored_row_has_a_retention() -> None:
    """Each once; and nothing is there that is not stored."""
    assert named() == Counter(stored())


def test_what_is_removed_is_removed_by_a_module_that_exists() -> None:
    """A row that always stays has no deleting module, and states the number of such rows."""
    for rows, kept, removed in (row + [""] * (3 - len(row)) for row in table()):
        modules = re.findall(r"`([\w/]+\.py)`", removed)
        assert all((OPERATIONS / module).is_file() for module in modules), rows
        assert modules or re.search(r"always: (one|\d+|at most) |lifecycle rule", kept), rows


def test_each_kind_of_row_has_a_rule_for_a_purge() -> None:
    """A new kind of row or blob is deleted with its tenant, or stays for a reason that the table of rules has."""
    assert set(RULES) == stored()
