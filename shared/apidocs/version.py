"""The version that the API's documents show."""

from __future__ import annotations


def version_text(build: str | None) -> str:
    """Returns `API v1`, and the build of the app in a served document; a copy in docs/ has none."""
    return f"API v1 (build {build})" if build else "API v1"
