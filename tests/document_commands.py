"""Commands of the documents, run verbatim: shell blocks under a comment `<!-- tested: NAME -->`."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from emulator.up.ports import DEFAULTS
from tests.running_stack import ROOT, RunningStack

_TIMEOUT_S = 120


def block(document: Path, name: str) -> str:
    found = re.search(rf"<!-- tested: {name} -->\n```sh\n(.*?)```", document.read_text(encoding="utf-8"), re.DOTALL)
    assert found, f"{document.name} has no block {name}"
    return found[1]


def run(stack: RunningStack, commands: str, replacements: Mapping[str, str] = {}) -> str:
    """The output of a block, run against `stack` instead of a stack on the default ports."""
    addresses = {
        f"http://127.0.0.1:{DEFAULTS.api}": stack.api,
        f"http://127.0.0.1:{DEFAULTS.azurite}/devstoreaccount1": stack.blob,
    }
    for default, value in {**addresses, **replacements}.items():
        commands = commands.replace(default, value)
    settings = [f"LUCIUS_API={stack.api}", f"LUCIUS_BLOB_CONNECTION={stack.storage_connection}"]
    process = subprocess.run(
        ["env", *settings, "bash", "-euo", "pipefail", "-c", commands],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    return process.stdout


def json_documents(text: str) -> list[Any]:
    """The JSON documents that follow one another in `text`."""
    decoder, documents, rest = json.JSONDecoder(), [], text.lstrip()
    while rest:
        document, end = decoder.raw_decode(rest)
        documents.append(document)
        rest = rest[end:].lstrip()
    return documents
