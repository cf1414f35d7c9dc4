"""What the API says of itself."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from shared.contracts.responses.common import Cursor, Response


class SchemaLine(Response):
    """A JSON Schema in the list of them."""

    name: Annotated[str, Field(examples=["result"])]
    title: str
    path: Annotated[str, Field(examples=["/v1/schemas/result"])]


class SchemaPage(Response):
    """Every JSON Schema there is."""

    schemas: list[SchemaLine]
    next: Cursor
