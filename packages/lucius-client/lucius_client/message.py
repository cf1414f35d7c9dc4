"""The base class of the generated models, in a module that is not generated."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict


class Message(BaseModel):
    """A read-only message of the API. The message keeps unknown fields, so an older client works with a newer API."""

    model_config = ConfigDict(frozen=True, extra="allow", populate_by_name=True)

    def plain(self) -> dict[str, Any]:
        """Returns the message as JSON values, with the fields that were sent or set and without defaults."""
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True)
