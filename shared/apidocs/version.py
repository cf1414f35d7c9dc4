"""The version in the API's documents."""

from __future__ import annotations


def version_text(build: str | None) -> str:
    """Returns `API v1`. In a served document, the text also has the build of the app. A copy in docs/ has no build."""
    return f"API v1 (build {build})" if build else "API v1"
