"""Forges histories: changes them, computes every hash again, and signs with its own key."""

from __future__ import annotations

import base64
import copy
import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from lucius_verify import Report, possible, verify
from lucius_verify.chain import event_hash
from lucius_verify.json_rows import digest, line
from lucius_verify.statements import PAYLOAD_TYPE, STATEMENT, key_id, pae
from lucius_verify.writer import Signed, write_bundle
from shared.core.jobs.as_of import apply_event, encode_columns, encode_value, rebuild_created
from shared.core.jobs.decide import apply
from shared.core.jobs.history import Provenance
from shared.core.jobs.job import Event, Job, Record, Step
from tests.lucius_verify.record import MANIFEST
from tests.lucius_verify.walks import Document

Json = dict[str, Any]
Files = dict[str, bytes]


def typed(document: Document) -> tuple[Record, list[Event]]:
    steps = tuple(possible.typed_row(Step, each) for each in document["steps"])
    return Record(possible.typed_row(Job, document["job"]), steps), [
        possible.typed_row(Event, e) for e in document["events"]
    ]


def chained(document: Document) -> Document:
    """The document with every hash and digest computed again."""
    previous = ""
    for number, event in enumerate(document["events"], start=1):
        event |= {"seq": number, "prev_hash": previous}
        event["hash"] = previous = event_hash(event)
    document["job"] |= {"event_hash": previous, "event_seq": len(document["events"])}
    rest = {name: value for name, value in document.items() if name != "digest"}
    return {**rest, "digest": f"sha256:{digest(rest)}"}


def folded(document: Document, created: Document) -> Document:
    """The document, chained, with the rows that follow from its events; `created` is an honest one of the same job."""
    _, events = typed(document)
    rows = rebuild_created(*typed(created))
    for event in events:
        rows = apply_event(rows, event)
    document["job"] = {**encode_columns(rows.job), "updated_at": document["job"]["updated_at"]}
    document["steps"] = [
        {**encode_columns(step), "updated_at": old["updated_at"]}
        for step, old in zip(rows.steps, document["steps"], strict=True)
    ]
    return chained(document)


def retold(document: Document, seq: int, /, **changes: Any) -> Document:
    """An honest history in which event `seq` had other inputs: everything after it follows from the app's rules.

    `changes` are columns of the event, fields of its `data`, or of the changes of its step (also as `of_step_NAME`).
    """
    made: Document = copy.deepcopy(document)
    altered = made["events"][seq - 1]
    for name, value in changes.items():
        if name in altered:
            altered[name] = value
        elif name in altered["data"]:
            altered["data"][name] = value
        else:
            altered["data"]["changes"]["steps"][altered["step_id"]][name.removeprefix("of_step_")] = value
    given, events = typed(made)
    record = rebuild_created(given, events).with_job(event_seq=1, event_hash=events[0].hash, suppressed=0)
    kept = [encode_value(events[0])]
    leases = possible.Leases()
    for event in events[1:]:
        provenance = Provenance(
            cause_id=event.cause_id,
            actor=event.actor,
            source=event.source,
            at=event.at,
            salt=event.salt,
            reason=event.reason,
        )
        outcomes = [apply(record, each, provenance) for each in possible.occurrences(record, event, leases)]
        outcome = next((each for each in outcomes if each.events), None)
        if outcome is None:
            break
        record = outcome.record
        kept.append(leases.turned_back(encode_value(outcome.events[0])))
    made["events"] = kept
    return folded(made, document)


@dataclass
class Signer:
    """A key and its signatures."""

    key: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))

    @property
    def key_id(self) -> str:
        return key_id(self.key.public_key())

    @property
    def pem(self) -> bytes:
        return self.key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)

    @property
    def keys(self) -> Json:
        return {"keys": [{"keyid": self.key_id, "pem": self.pem.decode(), "state": "active"}]}

    def envelope(self, kind: str, subject: str, content: bytes, predicate: Json) -> Json:
        statement = {
            "_type": STATEMENT,
            "subject": [{"name": subject, "digest": {"sha256": hashlib.sha256(content).hexdigest()}}],
            "predicateType": f"https://lucius.dev/audit/{kind}/v1",
            "predicate": predicate,
        }
        return self.signed(json.dumps(statement).encode())

    def signed(self, payload: bytes) -> Json:
        signature = self.key.sign(pae(PAYLOAD_TYPE, payload), ec.ECDSA(hashes.SHA256()))
        return {
            "payloadType": PAYLOAD_TYPE,
            "payload": base64.b64encode(payload).decode(),
            "signatures": [{"keyid": self.key_id, "sig": base64.b64encode(signature).decode()}],
        }

    def sign(self, documents: Iterable[Document], logs: Iterable[Json] = (), about: Json | None = None) -> Signed:
        """Heads in two pages, and an anchor of two days. `about` is more of the first record of a day."""
        heads: list[Json] = [
            {"job_id": each["job"]["job_id"], "seq": len(each["events"]), "hash": each["events"][-1]["hash"]}
            for each in documents
        ]
        heads += {each["log"]: {name: each[name] for name in ("log", "seq", "hash")} for each in logs}.values()
        pages, previous = [], ""
        for number, part in enumerate((heads[:1], heads[1:]), start=1):
            predicate = {name: MANIFEST[name] for name in ("tenant", "since", "until")}
            predicate |= {"page": number, "last": number == 2, "previous": previous, "heads": part}
            pages.append(self.envelope("heads", "heads", b"".join(map(line, part)), predicate))
            previous = hashlib.sha256(base64.b64decode(pages[-1]["payload"])).hexdigest()
        anchors, previous = [], ""
        for day in ("2026-01-27", "2026-01-28"):
            lines = [{"tenant": "tenant_a", "day": day, **(about or {})}, *(heads if day == "2026-01-27" else [])]
            part = hashlib.sha256(b"".join(map(line, lines))).hexdigest()
            parts = sorted([part, hashlib.sha256(b"another tenant").hexdigest()])
            envelope = self.envelope("anchor", "parts", b"", {"day": day, "previous": previous, "parts": parts})
            anchors.append({"day": day, "envelope": envelope, "lines": lines})
            previous = hashlib.sha256(base64.b64decode(envelope["payload"])).hexdigest()
        return Signed(pages, anchors, self.keys)


def write(
    path: Path,
    documents: list[Document],
    *,
    logs: list[Json] | None = None,
    signed: Signed | None = None,
    with_content: bool = True,
    manifest: Mapping[str, Any] = MANIFEST,
) -> Path:
    write_bundle(
        path, manifest=dict(manifest), jobs=documents, logs=logs or [], signed=signed, with_content=with_content
    )
    return path


def verified(folder: Path, document: Document) -> Report:
    """The report about a bundle of one job."""
    path = folder / "one.json"
    path.write_text(json.dumps(document))
    return verify(path)


def unpacked(packed: bytes) -> Files:
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        return {each.name: archive.extractfile(each).read() for each in archive}  # type: ignore[union-attr]


def packed(
    files: Files, change: Callable[[tarfile.TarInfo], Any] = lambda _: None, kind: int = tarfile.USTAR_FORMAT
) -> bytes:
    """The archive of these files, in their order; `change` alters each header."""
    made = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=made, mode="wb", mtime=0) as whole,
        tarfile.open(fileobj=whole, mode="w", format=kind) as tar,
    ):
        for name, content in files.items():
            header = tarfile.TarInfo(name)
            header.size = len(content)
            change(header)
            tar.addfile(header, io.BytesIO(content))
    return made.getvalue()


def listed(files: Files) -> Files:
    """The files with a manifest that fits them, as a forger would write it."""
    manifest = json.loads(files["manifest.json"])
    manifest["files"] = {
        name: {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content), "rows": content.count(b"\n")}
        for name, content in files.items()
        if name != "manifest.json"
    }
    return {**files, "manifest.json": json.dumps(manifest).encode()}
