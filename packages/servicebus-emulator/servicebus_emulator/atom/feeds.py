"""Reads requests and writes responses of the management API, as ATOM entries and feeds."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from xml.etree import ElementTree
from xml.sax.saxutils import escape

from servicebus_emulator.atom.rules_xml import INSTANCE, SERVICE_BUS
from servicebus_emulator.broker.errors import InvalidRequest

_ATOM = "http://www.w3.org/2005/Atom"


def instant(ms: int) -> str:
    """Returns a time in Unix milliseconds as ISO 8601."""
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def read_content(body: bytes) -> ElementTree.Element:
    """Returns the description element in the content of an entry. Raises InvalidRequest for any other body."""
    if b"<!" in body:
        raise InvalidRequest("Document types and entities are not accepted.")
    try:
        entry = ElementTree.fromstring(body)
    except ElementTree.ParseError as error:
        raise InvalidRequest(f"The body is not XML: {error}") from error
    content = entry.find(f"{{{_ATOM}}}content")
    if content is None or len(content) != 1:
        raise InvalidRequest("The body must be an ATOM entry whose content is one description.")
    return content[0]


def texts_of(element: ElementTree.Element) -> dict[str, str]:
    """Returns the simple properties of a description, by name without namespace."""
    return {child.tag.rpartition("}")[2]: child.text or "" for child in element if len(child) == 0}


def write_description(kind: str, texts: Mapping[str, str], extra: str = "") -> str:
    """Returns a description element. `extra` is XML that follows the properties."""
    items = "".join(f"<{name}>{escape(text)}</{name}>" for name, text in texts.items())
    return f'<{kind} xmlns="{SERVICE_BUS}" xmlns:i="{INSTANCE}">{items}{extra}</{kind}>'


def entry(base: str, path: str, title: str, at: str, content: str, *, root: bool = True) -> str:
    """Returns an entry. `base` and `path` make its id."""
    namespace = f' xmlns="{_ATOM}"' if root else ""
    url = escape(f"{base}/{path}?api-version=2021-05")
    return (
        f'<entry{namespace}><id>{url}</id><title type="text">{escape(title)}</title><published>{at}</published>'
        f'<updated>{at}</updated><author><name>emulator</name></author><link rel="self" href="{url}"/>'
        f'<content type="application/xml">{content}</content></entry>'
    )


def feed(base: str, path: str, title: str, at: str, entries: list[str], next_query: str | None = None) -> str:
    """Returns a feed. `next_query` is the query of its next page."""
    url = escape(f"{base}/{path}")
    links = f'<link rel="self" href="{url}"/>'
    if next_query is not None:
        links += f'<link rel="next" href="{url}?{escape(next_query)}"/>'
    return (
        f'<feed xmlns="{_ATOM}"><id>{url}</id><title type="text">{escape(title)}</title><updated>{at}</updated>'
        f"{links}{''.join(entries)}</feed>"
    )


def error(status: int, detail: str) -> str:
    """Returns the document of an error."""
    return f"<Error><Code>{status}</Code><Detail>{escape(detail)}</Detail></Error>"
