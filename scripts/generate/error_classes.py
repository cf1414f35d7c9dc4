"""The table of docs/reference/errors.md, with the error codes of the API by class and the caller's action for each
class.
"""

from __future__ import annotations

from typing import NamedTuple

from scripts.generate.api_tables import problems
from scripts.generate.tables import markdown_table


class _Class(NamedTuple):
    """Error codes with the same action of the caller, by their HTTP statuses."""

    title: str
    statuses: frozenset[str]
    retry: str
    action: str


_CLASSES = (
    _Class(
        "Invalid request",
        frozenset({"400", "406", "411", "413", "415", "428"}),
        "Only after a change",
        "Repair the request: headers, fields or parameters that `errors` or `detail` names. LUCIUS changed nothing.",
    ),
    _Class(
        "Not authenticated",
        frozenset({"401"}),
        "Once, with a new token",
        "Get a new token. If LUCIUS refuses the second request too, compare issuer and audience with the settings "
        "`LUCIUS_AUTH_ISSUER` and `LUCIUS_AUTH_AUDIENCE`.",
    ),
    _Class(
        "Not allowed",
        frozenset({"403"}),
        "No",
        "Use a token of the right tenant, or ask an operator for the scope or role.",
    ),
    _Class(
        "Not found",
        frozenset({"404"}),
        "No",
        "Check the id and the tenant. The response is the same for jobs of other tenants.\n\n"
        "A code that ends in `_OFF` names a feature that the deployment has disabled.",
    ),
    _Class(
        "Gone",
        frozenset({"410"}),
        "No",
        "Continue from the position or path in the response, or ask an operator.",
    ),
    _Class(
        "Conflict",
        frozenset({"409", "412"}),
        "After reading the state again",
        "Read the resource. If your change still applies, send the request again.",
    ),
    _Class(
        "Limit reached",
        frozenset({"429"}),
        "Yes, after `Retry-After` seconds",
        "Send the same request again. If the error repeats, ask an operator for a higher quota, or for "
        "`LUCIUS_OVERFLOW=stage`, with which jobs wait.",
    ),
    _Class(
        "Unavailable",
        frozenset({"503"}),
        "Yes, after `Retry-After` seconds",
        "A repeated submission returns the same job.",
    ),
    _Class(
        "Defect",
        frozenset({"500"}),
        "Yes, up to five times",
        "Report `correlation_id` to an operator. Send a submission again: the second submission returns the same job.",
    ),
)


def classes() -> str:
    """Returns a row for each class."""
    rows = ((f"[{each.title}](#{_anchor(each)})", ", ".join(sorted(each.statuses)), each.retry) for each in _CLASSES)
    return markdown_table(("class", "status", "send the request again?"), rows)


def codes() -> str:
    """Returns a section for each class, with its codes. A code of several classes is in the first of these classes."""
    rows = [tuple(line.strip("| ").split(" | ")) for line in problems().splitlines()[2:]]
    parts = []
    for each in _CLASSES:
        own = [row for row in rows if set(row[1].split(", ")) & each.statuses]
        rows = [row for row in rows if row not in own]
        parts.append(f"## {each.title}\n\nSend the request again? {each.retry}. {each.action}\n")
        parts.append(markdown_table(("code", "status", "meaning"), own) + "\n")
    assert not rows, f"error codes of no class: {rows}"
    return "\n".join(parts).rstrip()


def _anchor(each: _Class) -> str:
    return each.title.lower().replace(" ", "-")


PARTS = {"error-classes": classes, "error-codes": codes}
