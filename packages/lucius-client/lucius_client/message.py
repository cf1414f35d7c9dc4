"""What every message of the API has in common here."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict


class Message(BaseModel):
    """Read-only. Fields that this version does not know are kept, so that an older client works with a newer API."""

    model_config = ConfigDict(frozen=True, extra="allow", populate_by_name=True)

    def plain(self) -> dict[str, Any]:
        """As JSON values, with the fields that were given and no others."""
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True)
