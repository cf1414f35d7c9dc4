"""Counts the storage requests and the messages of a local stack."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import httpx

_REQUEST = re.compile(r'"(?P<method>[A-Z]+) (?P<path>\S+) HTTP/1\.1" (?P<status>\d{3})')
#: the app's tables; a transaction is a POST to `$batch`
_TABLE = re.compile(r"/devstoreaccount1/(lucius\w+|\$batch)", re.IGNORECASE)
_READS = {"GET", "HEAD"}


def storage_operations(access_log: Path) -> Counter[str]:
    """Counts requests in Azurite's log by kind. The kinds are table transactions, table writes and reads, and blob
    writes and reads.
    """
    counted: Counter[str] = Counter()
    with access_log.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            request = _REQUEST.search(line)
            if request is None or "/devstoreaccount1/Tables" in line:
                continue
            reads = request["method"] in _READS
            table = _TABLE.match(request["path"])
            if table is None:
                counted["blob reads" if reads else "blob writes"] += 1
            elif table[1].lower() == "$batch":
                counted["table transactions"] += 1
            else:
                counted["table reads" if reads else "table writes"] += 1
    return counted


def bus_operations(admin: str) -> Counter[str]:
    """Counts messages that the bus received, by kind, and the dead letters of all. The kinds are `directives`,
    `replies` and the name of each other queue.

    `admin` is the URL of the bus emulator's HTTP API.
    """
    entities = httpx.get(f"{admin}/entities", timeout=10, trust_env=False).raise_for_status().json()
    counted: Counter[str] = Counter()
    for path, counts in entities.items():
        kind = "replies" if "-replies-" in path else "directives" if path.startswith("global-bus-") else path
        counted[kind] += counts["enqueued"]
        counted["dead letters"] += counts["dead_letter"]
    return counted
