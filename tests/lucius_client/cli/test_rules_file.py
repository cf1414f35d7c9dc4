"""Quotas kept as a file."""

from pathlib import Path

import pytest

from lucius_client.cli.exits import UsageError
from lucius_client.cli.rules_file import FileRule, read_rules
from tests.lucius_client.cli.command import run_main

FILE = """
quotas:
- tenant: acme
  jobType: "*"
  maxActive: 50
  burst: 10
  maxPerHour: 500
  priority: {emergency: {maxActive: 5, skipQueue: true}}
- {tenant: acme, source: s, maxStaged: 0}
- {tenant: acme, jobType: OCR, breaker: {failureRate: 0.3}}
"""
NONE = dict.fromkeys(("max_active", "max_per_hour", "burst", "max_staged", "emergency_max_active", "breaker"))


def test_a_file_has_the_whole_rule_of_each_gate(tmp_path: Path) -> None:
    """What it leaves out is taken out; job type `*` is the tenant's own gate."""
    file = tmp_path / "quotas.yaml"
    file.write_text(FILE)
    numbers = {**NONE, "max_active": 50, "max_per_hour": 500, "burst": 10, "emergency_max_active": 5}
    assert read_rules(file) == [
        FileRule("acme", None, None, numbers),
        FileRule("acme", None, "s", {**NONE, "max_staged": 0}),
        FileRule(
            "acme", "OCR", None, {**NONE, "breaker": {"failure_rate": 0.3, "min_calls": None, "cooldown_s": None}}
        ),
    ]


WRONG = {
    "": "must be a list under `quotas:`",
    "quotas: [": "is no YAML",
    "quotas: [1]": "quotas[0]: must be a mapping",
    "quotas: [{maxActive: 1}]": "quotas[0]: has no tenant",
    "quotas: [{tenant: 7}]": "quotas[0].tenant: must be text",
    "quotas: [{tenant: a, maxActive: yes}]": "quotas[0].maxActive: must be a whole number",
    "quotas: [{tenant: a, limit: 1}]": "quotas[0]: unknown: limit",
    "quotas: [{tenant: a, priority: {high: {}}}]": "quotas[0].priority: must be",
    "quotas: [{tenant: a, breaker: on}]": "quotas[0].breaker: must be a mapping",
    "quotas: [{tenant: a, breaker: {rate: 1}}]": "quotas[0].breaker: must be a mapping",
    "quotas: [{tenant: a, breaker: {minCalls: yes}}]": "quotas[0].breaker.minCalls: must be a number",
    "quotas: [{tenant: a}, {tenant: a, jobType: '*'}]": "two rules for one gate: a",
    "quotas: [!!python/object/apply:os.getcwd []]": "is no YAML",
}


@pytest.mark.parametrize("text", WRONG)
def test_a_wrong_file_names_the_place(tmp_path: Path, text: str) -> None:
    """Before the first rule is applied; a file is data, and runs nothing."""
    file = tmp_path / "quotas.yaml"
    file.write_text(text)
    with pytest.raises(UsageError) as wrong:
        read_rules(file)
    assert WRONG[text] in str(wrong.value)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["set", "--tenant", "a", "--reason", "r"], "name a number to set"),
        (["set", "--tenant", "a", "--reason", "r", "--max-active", "-1"], "--max-active -1: must be a whole number"),
        (["hold", "--tenant", "a", "--reason", "r", "--until", "soon"], "--until soon: must be an instant"),
        (["apply", "no-such-file.yaml"], "cannot read no-such-file.yaml"),
    ],
)
def test_wrong_options_are_usage(words: list[str], message: str) -> None:
    """Exit code 2, without a request."""
    completed = run_main("quota", *words, api="http://127.0.0.1:1")
    assert (completed.returncode, message in completed.stderr) == (2, True), completed.stderr
