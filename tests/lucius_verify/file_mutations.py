"""Mutations of the files of one bundle: bytes, and signatures with a manifest that fits."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

from lucius_verify.json_rows import canonical
from tests.lucius_verify.forging import Files, Signer

Json = dict[str, Any]
#: changes that a forger makes to the files of a bundle
OnFiles = Callable[[Files], Any]


def _edit(name: str, change: Callable[[Any], Any]) -> OnFiles:
    """Changes the JSON of a file, or of the first row of one."""

    def edited(files: Files) -> None:
        first, end, rest = files[name].partition(b"\n") if name.endswith("l") else (files[name], b"", b"")
        value = json.loads(first)
        change(value)
        # as the honest file has it, so that the change alone can be noticed
        files[name] = canonical(value) + end + rest

    return edited


def _statement(name: str, change: Callable[[Json], Any], signer: Signer | None = None) -> OnFiles:
    """Changes a signed statement, and signs it by another key if one is given."""

    def edited(files: Files) -> None:
        envelope = json.loads(files[name])
        statement = json.loads(base64.b64decode(envelope["payload"]))
        change(statement)
        payload = json.dumps(statement).encode()
        envelope["payload"] = base64.b64encode(payload).decode()
        if signer is not None:
            envelope |= signer.signed(payload)
        files[name] = canonical(envelope)

    return edited


_PAGE, _LAST, _KEYS = "signatures/heads-000001.json", "signatures/heads-000002.json", "signatures/keys.json"
_ANCHOR, _LINES = "signatures/anchor-2026-01-27.json", "anchors/2026-01-27.jsonl"
_DATA = ("README.txt", "heads.jsonl", "jobs.jsonl", "history.jsonl", "throttles.jsonl", _LINES)


def _appended(text: bytes) -> Callable[[bytes], bytes]:
    return lambda content: content + text


def _content(name: str, change: Callable[[bytes], bytes]) -> OnFiles:
    return lambda files: files.update({name: change(files[name])})


def _before(name: str, before: str) -> OnFiles:
    def reordered(files: Files) -> None:
        kept = dict(files)
        files.clear()
        for each, content in kept.items():
            if each == before:
                files[name] = kept[name]
            if each != name:
                files[each] = content

    return reordered


def unchanged_files(files: Files) -> None:
    """Writes the files again that mutations edit."""
    for name in ("manifest.json", "heads.jsonl", _LINES, _KEYS):
        _edit(name, lambda found: None)(files)
    for name in (_PAGE, _ANCHOR):
        _edit(name, lambda found: None)(files)
        _statement(name, lambda found: None)(files)


#: of the files, with the manifest as it was
BYTES: dict[str, OnFiles] = {
    **{f"{name}: a byte more": _content(name, _appended(b" ")) for name in _DATA},
    **{f"{name}: the first half": _content(name, lambda content: content[: len(content) // 2]) for name in _DATA},
    **{f"{name}: is missing": lambda files, name=name: files.pop(name) for name in (*_DATA, _PAGE, _LAST, _ANCHOR)},
    **{
        f"manifest: another {name}": _edit("manifest.json", lambda found, name=name: found.update({name: "another"}))
        for name in ("format", "tenant", "since", "until", "totals", "files")
    },
    "manifest: another digest": _edit(
        "manifest.json", lambda found: found["files"]["jobs.jsonl"].update(sha256="0" * 64)
    ),
    "manifest: another size": _edit("manifest.json", lambda found: found["files"]["jobs.jsonl"].update(bytes=1)),
    "manifest: other rows": _edit("manifest.json", lambda found: found["files"]["jobs.jsonl"].update(rows=1)),
    "manifest: is not the first": _before("manifest.json", "jobs.jsonl"),
    "history before jobs": _before("history.jsonl", "jobs.jsonl"),
    "a file more": lambda files: files.update({"extra.txt": b""}),
    "a path that leads out": lambda files: files.update({"../evil": b""}),
    "an absolute path": lambda files: files.update({"/etc/passwd": b""}),
}

#: of signatures, with a manifest that fits
SIGNED: dict[str, OnFiles] = {
    "a head with another hash": _edit("heads.jsonl", lambda head: head.update(hash="0" * 64)),
    "a head less": _content("heads.jsonl", lambda content: content.partition(b"\n")[2]),
    "a head that is no head": _edit("heads.jsonl", lambda head: head.update(seq="1")),
    "a page that was changed": _statement(_PAGE, lambda found: found["predicate"].update(tenant="tenant_b")),
    "a page of another window": _statement(
        _PAGE, lambda found: found["predicate"].update(since="2026-01-26T00:00:00Z")
    ),
    "a page with other heads": _statement(_PAGE, lambda found: found["predicate"].update(heads=[])),
    "a page of another type": _statement(_PAGE, lambda found: found.update(predicateType="https://else/v1")),
    "a page by another key": _statement(_PAGE, lambda found: None, Signer()),
    "a page without signatures": _edit(_PAGE, lambda found: found.update(signatures=[])),
    "a page with a damaged signature": _edit(_PAGE, lambda found: found["signatures"][0].update(sig="MEUCIQ==")),
    "a page of another payload type": _edit(_PAGE, lambda found: found.update(payloadType="text/plain")),
    "a page that is no envelope": _content(_PAGE, lambda _: b"{}"),
    "a page twice": lambda files: files.update({"signatures/heads-000003.json": files[_LAST]}),
    "pages exchanged": lambda files: files.update({_PAGE: files[_LAST], _LAST: files[_PAGE]}),
    "the last page gone": lambda files: files.pop(_LAST),
    "an anchor of another day": _statement(_ANCHOR, lambda found: found["predicate"].update(day="2026-01-26")),
    "an anchor line changed": _content(_LINES, lambda content: content.replace(b'"seq":', b'"seq": ')),
    "an anchor line gone": _content(_LINES, lambda content: content.rpartition(b"{")[0]),
    "an anchor of another tenant": _edit(_LINES, lambda found: found.update(tenant="tenant_b")),
    "a file without its anchor": lambda files: files.pop(_ANCHOR),
    "a key that is no key": _edit(_KEYS, lambda found: found["keys"][0].update(pem="none")),
    "a key under another id": _edit(_KEYS, lambda found: found["keys"][0].update(keyid="0" * 64)),
}
