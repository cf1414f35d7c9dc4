"""The packs of a runner, from its image and from the folders in `LUCIUS_PACKS_PATH`."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from lucius_service.errors import FailedFinal
from lucius_service.pack import MANIFEST, Pack, PackInvalid, plan_hash, read_pack

log = logging.getLogger(__name__)

#: packs that come with the runner
INCLUDED = Path(__file__).with_name("included")

#: codes of a RESULT
PACK_NOT_FOUND = "PACK_NOT_FOUND"
PACK_INVALID = "PACK_INVALID"
PLAN_HASH_MISMATCH = "PLAN_HASH_MISMATCH"


@dataclass(frozen=True)
class PackFolders:
    """Folders whose subfolders are packs. No request can name a path outside these folders."""

    folders: Sequence[Path]

    def find(self, pack_id: str, version: str) -> Pack:
        """Returns the pack of this id and version from the first folder that has it.

        Raises FailedFinal(PACK_NOT_FOUND).
        """
        versions = []
        for pack in self.packs():
            if pack.manifest.packId == pack_id:
                if pack.manifest.packVersion == version:
                    return pack
                versions.append(pack.manifest.packVersion)
        known = f"; available versions: {', '.join(versions)}" if versions else ""
        raise FailedFinal(PACK_NOT_FOUND, f"the runner has no pack {pack_id} {version}{known}")

    def packs(self) -> Iterator[Pack]:
        """Yields every pack. Skips folders that are not packs."""
        for folder in self.folders:
            for path in sorted(folder.glob(f"*/{MANIFEST}")):
                try:
                    yield read_pack(path.parent)
                except PackInvalid as wrong:
                    log.warning("skipped a folder that is not a pack: %s", wrong)


def copy_checked(pack: Pack, expected: str, target: Path) -> None:
    """Copies the files of a pack as they are hashed. Raises FailedFinal if the pack is invalid, or if the hash is not
    `expected`.

    The copied bytes are the hashed bytes, so that a pack that changes meanwhile never runs unchecked.
    """
    try:
        found = plan_hash(pack, target)
    except PackInvalid as wrong:
        raise FailedFinal(PACK_INVALID, str(wrong)) from None
    if found != expected:
        named = f"{pack.manifest.packId} {pack.manifest.packVersion}"
        raise FailedFinal(
            PLAN_HASH_MISMATCH, f"the pack {named} of this runner has the planHash {found}, not {expected}"
        )
