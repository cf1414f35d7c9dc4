"""The version in the API's documents."""

from __future__ import annotations


def version_text(build: str | None) -> str:
    """Returns `API v1`, with the build of the app in a served document; a copy in docs/ has no build."""
    return f"API v1 (build {build})" if build else "API v1"
