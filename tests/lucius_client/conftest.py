"""What tests of the client and of the command share."""

from __future__ import annotations

import uuid

import pytest


@pytest.fixture
def tenant() -> str:
    """A tenant of this test alone."""
    return f"client-{uuid.uuid4()}"
