"""A reference: where something is, never what it holds (S3 1.2: the control plane opens no document)."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field


class Reference(BaseModel):
    """`{"uri": ...}`; what else a caller puts beside `uri` is passed on untouched."""

    model_config = ConfigDict(frozen=True, extra="allow")

    #: absolute URI; which schemes and hosts are allowed is policy, checked by `shared.core.references`
    uri: Annotated[str, Field(min_length=1, max_length=2048)]


def _from_string(value: Any) -> Any:
    return {"uri": value} if isinstance(value, str) else value


#: CONTRACT "Envelope": a bare string is taken as a reference
LooseReference = Annotated[Reference, BeforeValidator(_from_string)]
