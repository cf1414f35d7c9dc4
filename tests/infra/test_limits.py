"""Defaults and limits of parameters: what Microsoft's compiler refused or warned of, found without it."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra.checks import symbols, values
from infra.checks.template import parse

INNER = """
@minLength(2)
@maxLength(24)
param name string

@minValue(1)
@maxValue(9)
param amount int = 3

output all array = [name, amount]
"""


def found(folder: Path, caller: str, inner: str = INNER) -> list[str]:
    (folder / "inner.bicep").write_text(inner)
    (folder / "main.bicep").write_text(caller)
    templates = {path.resolve(): parse(path) for path in folder.glob("*.bicep")}
    main = templates[(folder / "main.bicep").resolve()]
    assert main.broken == []
    checked = [*symbols.check_declarations(main, templates), *values.check(main, templates)]
    return [f"{each.rule} {each.text}" for each in checked if each.rule in ("default", "limit")]


@pytest.mark.parametrize(
    ("default", "text"),
    [
        ("map(items, item => item)", "item is no parameter (BCP072)"),
        ("spare", "spare is no parameter (BCP072)"),
        ("loadJsonContent('list.json')", "loadJsonContent becomes a variable"),
        ("concat(items, split(region, ','))", None),
        ("[]", None),
    ],
)
def test_a_default_names_parameters_only(tmp_path: Path, default: str, text: str | None) -> None:
    """The default of `platformServices` named a lambda's variable once, and nothing compiled."""
    caller = f"param items array\nparam region string\nvar spare = []\nparam all array = {default}\n"
    rules = found(tmp_path, caller)
    assert len(rules) == (0 if text is None else 1)
    assert text is None or text in rules[0]


@pytest.mark.parametrize(
    ("head", "given", "text"),
    [
        ("@minValue(0)\nparam budget int = 0", "amount: budget", "amount can be 0, below its least value 1"),
        ("@minValue(0)\nparam budget int = 0", "amount: max(budget, 1)", None),
        ("param budget int", "amount: budget", None),
        ("", "amount: 10", "amount can be 10, above its most value 9"),
        ("param wide bool", "amount: wide ? 12 : 1", "amount can be 12, above its most value 9"),
        ("@maxLength(21)\nparam short string", "name: 'pep-${short}'", "name can be 25, above its most length 24"),
        ("@maxLength(20)\nparam short string", "name: 'pep-${short}'", None),
        ("var token = uniqueString('x')\nvar suffix = 'a-fairly-long-${token}'", "name: suffix", "name can be 27"),
        ("param any string", "name: 'pep-${any}'", None),
        ("", "name: 'x'", "name can be 1, below its least length 2"),
    ],
)
def test_values_keep_to_the_limits_of_a_module(tmp_path: Path, head: str, given: str, text: str | None) -> None:
    """BCP329 of the budget and BCP335 of a private endpoint's name were found by the compiler first."""
    rules = found(tmp_path, f"{head}\nmodule inner 'inner.bicep' = {{\n  params: {{ {given} }}\n}}\n")
    assert len(rules) == (0 if text is None else 1), rules
    assert text is None or text in rules[0]


def test_a_modules_own_name_is_that_of_a_deployment(tmp_path: Path) -> None:
    """At most 64 characters."""
    caller = "@maxLength(61)\nparam short string\nmodule inner 'inner.bicep' = {\n  name: 'pep-${short}'\n}\n"
    assert found(tmp_path, caller) == ["limit name can be 65, above its most length 64 (BCP335)"]


def test_values_of_a_parameter_file(tmp_path: Path) -> None:
    """Literals of a `.bicepparam` file against its template."""
    (tmp_path / "inner.bicep").write_text(INNER)
    (tmp_path / "dev.bicepparam").write_text("using 'inner.bicep'\nparam name = 'x'\nparam amount = 10\n")
    rules = values.check_parameters(parse(tmp_path / "dev.bicepparam"), parse(tmp_path / "inner.bicep"), {})
    assert [each.line for each in rules] == [2, 3]
