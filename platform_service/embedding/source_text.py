"""The text to embed: OCR's `text.json`, or a plain text or markdown blob."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from lucius_service.errors import INPUT_BROKEN, INPUT_TYPE_UNSUPPORTED, NO_TEXT_FOUND, FailedFinal
from lucius_service.workspace_io import Document

TEXT_FORMAT = "lucius.text/1"


@dataclass(frozen=True)
class TextPage:
    """One page's text with its line breaks."""

    #: page number, from 1
    number: int
    text: str


def read_json(data: bytes) -> dict[str, Any] | None:
    """Returns the JSON object in `data`, or None for other data. Raises FailedFinal for too many nested levels."""
    if data.lstrip()[:1] != b"{":
        return None
    try:
        value = json.loads(data)
    except ValueError:
        return None
    except RecursionError:
        raise FailedFinal(INPUT_BROKEN, "the input is JSON with more nested levels than the service can read") from None
    return value if isinstance(value, dict) else None


def document_uri(source: Document) -> str:
    """Returns the URI of the text's document: `input` of a result of OCR or EMBEDDING, else the URI of the text.

    The URI of a result has a job id, which differs in a replay.
    """
    read_from = (read_json(source.data) or {}).get("input")
    uri = read_from.get("uri") if isinstance(read_from, dict) else None
    return uri if isinstance(uri, str) else source.uri


def replace_surrogates(text: Any) -> str:
    """Replaces halves of surrogate pairs by `?`. JSON may contain such halves, and UTF-8 cannot encode them."""
    return str(text).encode(errors="replace").decode()


def read_text(data: bytes) -> list[TextPage]:
    """Returns the pages that have text, at least one page. Raises FailedFinal if no page has text, or if the input is
    not a supported text.
    """
    value = read_json(data)
    if value is not None and value.get("format") == TEXT_FORMAT:
        try:
            pages = [TextPage(int(page["page"]), replace_surrogates(page["text"])) for page in value["pages"]]
        except (KeyError, TypeError, ValueError, RecursionError):
            raise FailedFinal(
                INPUT_BROKEN, f"the input is {TEXT_FORMAT}, but its pages are missing or invalid"
            ) from None
    elif value is not None:
        raise FailedFinal(INPUT_TYPE_UNSUPPORTED, f"the input is JSON, but not {TEXT_FORMAT}")
    else:
        pages = [TextPage(number, text) for number, text in enumerate(_plain(data).split("\f"), 1)]
    if not any(page.text.strip() for page in pages):
        raise FailedFinal(NO_TEXT_FOUND, "the input has no text")
    return [page for page in pages if page.text.strip()]


def _plain(data: bytes) -> str:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise FailedFinal(INPUT_TYPE_UNSUPPORTED, "the input is neither OCR's text.json nor UTF-8 text") from None
    if "\x00" in text or text.startswith("%PDF-"):
        raise FailedFinal(INPUT_TYPE_UNSUPPORTED, "the input is not text; run OCR before this step")
    return text.replace("\r\n", "\n")
