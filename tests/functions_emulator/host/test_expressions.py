"""Binding expressions."""

from __future__ import annotations

import pytest

from functions_emulator.host.errors import BindingError
from functions_emulator.host.expressions import fill, match_path


def test_expressions_are_filled_in() -> None:
    """Names, names within objects and generated values are replaced; a missing name is an error that names it."""
    assert fill("a/{b.c}/{d}", {"b": {"c": 1}, "d": "x"}) == "a/1/x"
    assert len(fill("{rand-guid}", {})) == 36
    with pytest.raises(BindingError, match="'nope'"):
        fill("{nope}", {})


def test_paths_give_their_values() -> None:
    """A pattern extracts the values from a blob path that matches."""
    assert match_path("in/{name}.{ext}", "in/a/b.txt") == {"name": "a/b", "ext": "txt"}
    assert match_path("in/{name}.txt", "out/a.txt") is None
