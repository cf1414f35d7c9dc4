"""Route templates as ASP.NET Core reads them."""

from __future__ import annotations

import pytest

from functions_emulator.host.errors import BindingError
from functions_emulator.host.routes import parse_template


@pytest.mark.parametrize(
    ("template", "path", "values"),
    [
        ("", "", {}),
        ("v1/jobs", "V1/Jobs/", {}),
        ("v1/jobs/{id}", "v1/jobs/a b%2F", {"id": "a b%2F"}),
        ("v1/jobs/{id}", "v1/jobs/", None),
        ("v1/jobs/{id}", "v1/jobs/a/b", None),
        ("{id}:cancel", "x:y:cancel", {"id": "x:y"}),
        ("{id}:cancel", ":cancel", None),
        ("{a}-{b}.txt", "1-2.txt", {"a": "1", "b": "2"}),
        ("{id:int}", "-12", {"id": "-12"}),
        ("{id:int}", "x", None),
        ("{id:int}", "\u0663", None),
        ("{id:guid}", "0f8fad5b-d9cb-469f-a165-70867728950e", {"id": "0f8fad5b-d9cb-469f-a165-70867728950e"}),
        ("{id:range(1,10)}", "11", None),
        ("{id:min(1)}", "\u00b2", None),
        ("{id:range(1,10)}", "10", {"id": "10"}),
        ("{id:length(3)}", "abc", {"id": "abc"}),
        ("{id:length(3)}", "abcd", None),
        ("{name:alpha:maxlength(2)}", "abc", None),
        (r"{id:regex(^\d{{3}}$)}", "123", {"id": "123"}),
        (r"{id:regex(^\d{{3}}$)}", "1234", None),
        ("{id?}", "", {}),
        ("a/{id?}", "a", {}),
        ("a/{id=7}", "a", {"id": "7"}),
        ("a/{*rest}", "a/b/c", {"rest": "b/c"}),
        ("a/{*rest}", "a", {}),
        ("a/{*rest}", "a/b\nc", {"rest": "b\nc"}),
    ],
)
def test_templates_match(template: str, path: str, values: dict[str, str] | None) -> None:
    """A path matches a template with these values, or does not match."""
    assert parse_template(template).match(path) == values


@pytest.mark.parametrize("template", ["{id", "id}", "{id:nope}", "{a}/{a}"])
def test_bad_templates_are_named(template: str) -> None:
    """The error names the template."""
    with pytest.raises(BindingError, match="route"):
        parse_template(template)
