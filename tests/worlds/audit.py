"""A world with a feed that records heads, with a key that signs them, and a store that keeps anchors."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from shared.adapters.kept_blobs import KeptInMemory
from shared.adapters.signing import PemSigner
from shared.adapters.tables.heads import TablesHeads
from shared.core.audit.heads import DayHead, day_of, last_of_days
from shared.core.audit.statements import PAYLOAD_TYPE, is_signed, payload_of, pre_authentication
from shared.operations.process.hinting import Hinting
from shared.operations.process.parts import Audit
from tests.contexts import changed
from tests.memory_bus import MemoryHints
from tests.operations.conftest import World
from tests.worlds.events import TENANT, Fed, of

FIRST, LAST = date(2000, 1, 1), date(2100, 1, 1)


def write_key(path: Path) -> None:
    """Writes a PEM file with a new key."""
    key = generate_private_key(SECP256R1())
    path.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))


@dataclass
class Audited(Fed):
    """A fed world with heads."""

    key: Path
    kept: KeptInMemory

    @property
    def audit(self) -> Audit:
        return self.world.context.require_audit()

    async def recorded(self, tenant: str = TENANT) -> dict[tuple[str, date], DayHead]:
        """The heads in the table, by name and day."""
        found = await self.audit.heads.list_days(tenant, FIRST, LAST, limit=10_000)
        return {(head.name, head.day): head for _, head in found}

    async def expected_heads(self, *job_ids: str) -> dict[tuple[str, date], DayHead]:
        """The heads of the jobs' histories in the ledger."""
        found = [head for each in job_ids for head in last_of_days(each, await self.world.ledger.events(each))]
        return {(head.name, head.day): head for head in found}

    def context_without(self) -> World:
        """The same world in a process without heads."""
        context = replace(self.world.context, audit=None)
        return replace(self.world, context=changed(context, hinting=Hinting(self.queue, self.world.clock)))

    @property
    def today(self) -> date:
        return day_of(self.world.clock.now())

    def anchor(self, day: date) -> dict[str, Any]:
        """The predicate of the day's anchor."""
        found: dict[str, Any] = json.loads(payload_of(json.loads(self.kept.files[f"days/{day}.json"])))["predicate"]
        return found


def audited_of(world: World, tmp_path: Path) -> Audited:
    fed, key, kept = of(world), tmp_path / "audit.pem", KeptInMemory()
    write_key(key)
    audit = Audit(heads=TablesHeads(fed.feed._rows.account, "feed"), signer=PemSigner(key), kept=kept)
    queue = MemoryHints()
    context = changed(fed.world.context, hinting=Hinting(queue, world.clock, has_heads=True))
    return Audited(replace(fed.world, context=replace(context, audit=audit)), queue, fed.feed, key, kept)


@pytest.fixture
def audited(world: World, tmp_path: Path) -> Audited:
    return audited_of(world, tmp_path)


async def verified(audited: Audited, envelope: Mapping[str, Any]) -> dict[str, Any]:
    """The statement of an envelope that the world's key has signed."""
    key = await audited.audit.signer.public_key()
    (signature,) = envelope["signatures"]
    assert signature["keyid"] == key.key_id
    payload = payload_of(envelope)
    from base64 import b64decode

    assert is_signed(key.pem, pre_authentication(PAYLOAD_TYPE, payload), b64decode(signature["sig"]))
    statement: dict[str, Any] = json.loads(payload)
    return statement
