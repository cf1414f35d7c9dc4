"""References: URIs of documents, never their content."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

MAX_URI = 2048

_HOST = "[A-Za-z0-9._-]+"
_PORT = "(?::(?:[0-9]{1,4}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5]))?"
#: rest of a URI, without spaces, control characters and backslashes
_REST = r"(?:[/?#][^\x00-\x20\x7f\\]*)?"


def uri_pattern(schemes: Iterable[str]) -> str:
    """Returns a regular expression for URIs with these schemes and any host, in the common grammar of ECMA 262 and
    Python.

    `shared.access.references` decides if a URI is allowed. That module also accepts schemes in capitals, and IPv6
    addresses.
    """
    plain = "|".join(sorted(set(schemes) - {"abfss"}))
    ways = [f"(?:{plain})://"] if plain else []
    ways += ["abfss://[$A-Za-z0-9-]+@"] if "abfss" in schemes else []
    return f"^(?:{'|'.join(ways)}){_HOST}{_PORT}{_REST}$"


class Reference(BaseModel):
    """Reference to a document: `{"uri": ...}`. LUCIUS forwards other fields unchanged. No field can contain a
    credential."""

    model_config = ConfigDict(frozen=True, extra="allow", use_attribute_docstrings=True)

    uri: Annotated[
        str,
        Field(
            min_length=1,
            max_length=MAX_URI,
            examples=["https://account.blob.core.windows.net/documents/lease.pdf"],
        ),
    ]
    """Absolute URI. The app's settings define the allowed schemes and hosts."""


def _from_string(value: Any) -> Any:
    return {"uri": value} if isinstance(value, str) else value


#: a reference, or its URI as plain text
LooseReference = Annotated[
    Reference,
    BeforeValidator(
        _from_string,
        json_schema_input_type=Reference | Annotated[str, Field(min_length=1, max_length=MAX_URI)],
    ),
]
