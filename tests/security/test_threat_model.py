"""docs/explanation/security.md and docs/contributing/defenses.md: each attack has its tests, and they exist."""

from __future__ import annotations

import ast
import re
import subprocess

from tests.running_stack import ROOT

SECURITY = (ROOT / "docs" / "explanation" / "security.md").read_text(encoding="utf-8")
DEFENSES = (ROOT / "docs" / "contributing" / "defenses.md").read_text(encoding="utf-8")


def _rows(text: str) -> list[str]:
    """Returns the rows of the text's tables, without the header of the first one."""
    return [line for line in text.splitlines() if line.startswith("| ")][1:]


def test_each_attack_has_its_defense_and_its_tests() -> None:
    """Both tables have the same attacks, in the same order."""
    model = SECURITY.split("## Threat model")[1].split("\n## ")[0]
    attacks, tested = ([row.split(" | ")[0] for row in _rows(text)] for text in (model, DEFENSES))
    assert attacks == tested


def test_every_attack_names_a_test_that_exists() -> None:
    """Each row has one, and each one named is a function of that file."""
    rows = _rows(DEFENSES)
    assert len(rows) > 30
    for row in rows:
        named = re.findall(r"`(tests/[\w/]+\.py)?::(\w+)`", row)
        assert named, row
        path = ""
        for file, name in named:
            path = file or path
            tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
            functions = {each.name for each in tree.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)}
            assert name in functions, f"{path} has no {name}"


def test_every_attack_over_http_is_in_the_model() -> None:
    """No test of an attack without its row."""
    for name in ("http", "inputs", "tenants", "tokens"):
        tree = ast.parse((ROOT / "tests" / "security" / f"test_{name}.py").read_text(encoding="utf-8"))
        for each in tree.body:
            if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) and each.name.startswith("test_"):
                assert each.name in DEFENSES or each.name in ORDINARY, each.name


def test_make_up_asks_for_tokens_with_its_option() -> None:
    """`make up AUTH=1` is the stack with an issuer, `make up` the one without."""
    for given, auth in (("AUTH=1", True), ("AUTH=", False)):
        shown = subprocess.run(["make", "-n", "up", given], cwd=ROOT, capture_output=True, text=True, check=True).stdout
        assert "-m emulator up" in shown
        assert ("--auth" in shown) is auth


#: normal requests: continuations of the good case
ORDINARY = {
    "test_a_good_token_is_a_caller",
    "test_without_a_token_the_challenge_has_no_error",
    "test_clocks_may_differ_a_little",
    "test_a_token_without_a_key_id_is_refused",
    "test_a_new_key_is_found",
    "test_without_the_issuer_there_is_no_telling",
    "test_a_withdrawn_key_ends",
    "test_every_answer_has_the_correlation_id",
    "test_the_docs_commands",
}
