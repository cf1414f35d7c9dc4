"""The statements that the server signed: pages of heads for the window, and anchors of each day.

A head has the number and the hash of a job's last event, or of a log's last entry, on one UTC day.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta

from lucius_verify.faults import Fault, Unreadable
from lucius_verify.json_rows import Row, line, parse_object
from lucius_verify.statements import ANCHOR, HEADS, Keys, NotValid
from lucius_verify.tarball import Tarball

#: maximum jobs and logs with a head; each needs about 300 bytes of memory
MAX_NAMES = 1_000_000
_MAX_SIGNATURE = 16 << 20
#: packed form of a number and a hash
_HEAD = struct.Struct(">q32s")

#: function that makes a fault of an event by its number
Place = Callable[[int, str], Fault]


class SignedHeads:
    """Heads by job or log, which are read with the bundle and then compared with its histories."""

    def __init__(self, keys: Keys) -> None:
        self.keys = keys
        self._heads: dict[str, bytes] = {}
        #: heads of the window that no history was compared with yet
        self._missing: set[str] = set()
        self._pages = hashlib.sha256()
        self._previous_page = ""
        self._last = False
        self._anchor: tuple[date, str] | None = None
        self.pages = 0
        self.anchors = 0
        #: number of anchored days whose file says that heads are missing
        self.incomplete = 0
        #: the first broken link
        self.fault: Fault | None = None

    def read_rows(self, member: Tarball, manifest: Row) -> None:
        """Reads `heads.jsonl`, or an anchor's file. Raises Unreadable."""
        try:
            day = date.fromisoformat(member.name[8:18]) if member.name.startswith("anchors/") else None
        except ValueError:
            raise Unreadable("the name has no date", member.name) from None
        in_window = day is None or _covers(manifest, day)
        for number, text in enumerate(member.rows(), start=1):
            row = parse_object(text, member.name, number)
            if day is not None and number == 1:
                about = {"tenant": manifest["tenant"], "day": str(day)}
                self.incomplete += row == {**about, "complete": False}
                if row not in (about, {**about, "complete": False}):
                    self._broken("the anchor is of another tenant or day", member.name, 1)
                continue
            name, seq, hash_ = row.get("job_id") or row.get("log"), row.get("seq"), row.get("hash")
            try:
                head = _HEAD.pack(seq, bytes.fromhex(hash_))  # type: ignore[arg-type]
            except (TypeError, ValueError, struct.error):
                head = b""
            if (
                not isinstance(name, str)
                or not head
                or row.keys() != {"log" if ":" in name else "job_id", "seq", "hash"}
            ):
                raise Unreadable("the row is not a head", member.name, number)
            known = self._heads.get(name, b"")
            self._heads[name] = known if head in known else known + head
            if in_window:
                self._missing.add(name)
            if len(self._heads) > MAX_NAMES:
                raise Unreadable(f"the bundle has heads of more than {MAX_NAMES} jobs and logs", member.name, number)

    def read_envelope(self, member: Tarball, manifest: Row, digests: Mapping[str, str]) -> None:
        """Reads a file of `signatures/`. `digests` has the SHA-256 of each earlier file, by name. Raises Unreadable."""
        document = parse_object(member.whole(_MAX_SIGNATURE), member.name)
        try:
            if member.name.endswith("/keys.json"):
                self.keys.add(document)
            elif member.name.startswith("signatures/heads-"):
                self._read_page(document, manifest, member.name)
            else:
                self._read_anchor(document, digests, member.name)
        except NotValid as wrong:
            self._broken(str(wrong), member.name)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as wrong:
            self._broken(f"the statement has an invalid form: {type(wrong).__name__}: {wrong}", member.name)

    def _read_page(self, envelope: Row, manifest: Row, file: str) -> None:
        statement = self.keys.open(envelope, HEADS, file)
        page = statement.predicate
        lines = b"".join(line(each) for each in page["heads"])
        for name in ("tenant", "since", "until"):
            if page[name] != manifest[name]:
                raise NotValid(f"the page is signed for the {name} {page[name]}, and the manifest has {manifest[name]}")
        if self._last or page["page"] != self.pages + 1 or page["previous"] != self._previous_page:
            raise NotValid("the page does not follow the previous page")
        if statement.subject != [{"name": "heads", "digest": {"sha256": hashlib.sha256(lines).hexdigest()}}]:
            raise NotValid("the subject of the page is not the digest of the heads")
        self._pages.update(lines)
        self.pages, self._previous_page, self._last = self.pages + 1, statement.digest, bool(page["last"])

    def _read_anchor(self, envelope: Row, digests: Mapping[str, str], file: str) -> None:
        statement = self.keys.open(envelope, ANCHOR, file)
        anchor = statement.predicate
        day, parts = date.fromisoformat(anchor["day"]), anchor["parts"]
        if file != f"signatures/anchor-{day}.json":
            raise NotValid(f"the statement is of the day {day}")
        if self._anchor is not None:
            before, digest = self._anchor
            if before + timedelta(days=1) == day and anchor["previous"] != digest:
                raise NotValid("the statement does not name the anchor of the previous day")
        mine = digests.get(f"anchors/{day}.jsonl")
        if mine is not None and mine not in parts:
            raise NotValid(f"the statement does not name the digest of anchors/{day}.jsonl")
        self._anchor = (day, statement.digest)
        self.anchors += 1

    def finish(self, digests: Mapping[str, str]) -> None:
        """Compares the signed pages with `heads.jsonl`, and checks that the file of each anchor is signed.

        Must be called after all files are read.
        """
        signed = {f"anchors/{name[18:-5]}.jsonl" for name in digests if name.startswith("signatures/anchor-")}
        if unsigned := {name for name in digests if name.startswith("anchors/")} - signed:
            self._broken("no signed statement anchors the file", min(unsigned))
        if self.pages and not self._last:
            self._broken("the last signed page is missing", "signatures")
        if digests["heads.jsonl"] != self._pages.hexdigest():
            self._broken("the rows differ from the rows of the signed pages", "heads.jsonl")

    def compare(self, name: str, rows: list[Row], place: Place) -> Fault | None:
        """Returns a fault for the first signed head that a history, or a log, does not have, or None if no head is
        missing. The oldest entries of a log can be deleted.
        """
        self._missing.discard(name)
        hashes = {row["seq"]: row["hash"] for row in rows}
        first = min(hashes, default=1)
        for seq, hash_ in _HEAD.iter_unpack(self._heads.get(name, b"")):
            if ":" in name and seq < first:
                continue
            if seq not in hashes:
                return place(max(hashes, default=0), f"number {seq} is signed, and the history in the bundle ends here")
            if hashes[seq] != hash_.hex():
                return place(seq, "the hash is not the signed hash")
        return None

    def newest(self, name: str) -> int:
        """Returns the number of the newest signed row, or 0 if no row is signed."""
        return max((seq for seq, _ in _HEAD.iter_unpack(self._heads.get(name, b""))), default=0)

    def omitted_job(self) -> str | None:
        """Returns a job that has a head in the window and is missing in the bundle, or None if no job is missing."""
        return min((name for name in self._missing if ":" not in name), default=None)

    def omitted_logs(self) -> int:
        """Returns the number of logs of quotas and incidents that have a head in the window and are missing in the
        bundle.
        """
        return sum(":" in name for name in self._missing)

    def _broken(self, why: str, file: str, row: int | None = None) -> None:
        if self.fault is None:
            self.fault = Fault(why, file, row)


def _covers(manifest: Row, day: date) -> bool:
    """Returns True if the window has the whole day. Raises Unreadable."""
    begins = datetime(day.year, day.month, day.day, tzinfo=UTC)
    try:
        since, until = (datetime.fromisoformat(manifest[name]) for name in ("since", "until"))
        return since <= begins and begins + timedelta(days=1) <= until
    except (OverflowError, TypeError, ValueError):
        raise Unreadable("since and until must be times with a time zone", "manifest.json") from None
