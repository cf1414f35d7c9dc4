"""Quotas from a file and from options of the command line."""

import json
import re
from pathlib import Path
from typing import Any, get_args

import pytest

from lucius_client.cli import quotas, rules_file
from lucius_client.cli.exits import UsageError
from lucius_client.cli.quota_tables import change_line
from lucius_client.cli.rules_file import FileRule, read_rules
from lucius_client.governance import Governance
from shared.api.quota import Quota
from shared.api.quota_changes import Resume
from shared.core.gates.rules import OVER_ALL_EXAMPLES
from tests.lucius_client import samples
from tests.lucius_client.cli.command import run_main
from tests.lucius_client.stub_api import CannedResponse, serving

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
NONE = dict.fromkeys(("max_active", "max_per_hour", "burst", "max_staged", "emergency_max_active", "weight", "breaker"))
#: of a breaker, where the file names none
NEW = dict.fromkeys(("min_calls", "cooldown_s", "min_tenants"))


def test_a_change_that_keeps_the_limits_does_not_look_like_a_new_limit() -> None:
    """The reset of a closed breaker deletes only the breaker's counts."""
    quota = {"name": None, "tenant": "acme", "type": "OCR", "source": None}
    one, two = {"rule": {"max_active": 1}}, {"rule": {"max_active": 2}}
    assert change_line({"quota": quota, "changed": True, "before": one, "after": one}).endswith(
        ": changed, the limits stay (max_active=1)"
    )
    held = {"hold": {"until": "2026-01-27T10:00:00.470387+00:00"}}
    change = {"quota": quota, "changed": True, "before": one, "after": held}
    assert change_line(change).endswith(": max_active=1 -> held until 2026-01-27T10:00:00Z")
    change = {"quota": quota, "changed": True, "before": one, "after": two}
    assert change_line(change).endswith(": max_active=1 -> max_active=2")
    assert change_line(change | {"dryRun": True, "released": 1000, "held_back": 3}).endswith(
        "(dry run: 1,000 or more jobs start, 3 continue to wait)"
    )


def test_the_texts_have_the_name_of_each_kind_of_gate_over_all_tenants() -> None:
    """The client and the bodies cannot import the table of the kinds."""
    option = get_args(quotas.Gate)[1].help
    fields = [Resume.model_fields["name"].description, Quota.model_fields["name"].description]
    for text in (option, rules_file.__doc__, Governance.quota.__doc__, *fields):
        assert all(re.search(rf"\b{name}\b", str(text)) for name in OVER_ALL_EXAMPLES)


def test_a_file_has_the_whole_rule_of_each_gate(tmp_path: Path) -> None:
    """Omitted limits are removed; job type `*` is the tenant's own quota."""
    file = tmp_path / "quotas.yaml"
    file.write_text(FILE)
    numbers = {**NONE, "max_active": 50, "max_per_hour": 500, "burst": 10, "emergency_max_active": 5}
    assert read_rules(file) == [
        FileRule("acme", None, None, None, numbers),
        FileRule("acme", None, "s", None, {**NONE, "max_staged": 0}),
        FileRule("acme", "OCR", None, None, NONE | {"breaker": {"failure_rate": 0.3} | NEW}),
    ]


WRONG = {
    "": "must be a list under `quotas:`",
    "quotas: [": "is not YAML",
    "quotas: [1]": "quotas[0]: must be a mapping",
    "quotas: [{maxActive: 1}]": "quotas[0]: must name a tenant",
    "quotas: [{tenant: 7}]": "quotas[0].tenant: must be text",
    "quotas: [{tenant: a, maxActive: yes}]": "quotas[0].maxActive: must be a whole number",
    "quotas: [{tenant: a, limit: 1}]": "quotas[0]: unknown keys: limit",
    "quotas: [{tenant: a, priority: {high: {}}}]": "quotas[0].priority: must be",
    "quotas: [{tenant: a, breaker: on}]": "quotas[0].breaker: must be a mapping",
    "quotas: [{tenant: a, breaker: {rate: 1}}]": "quotas[0].breaker: must be a mapping",
    "quotas: [{tenant: a, breaker: {minCalls: yes}}]": "quotas[0].breaker.minCalls: must be a number",
    "quotas: [{tenant: a}, {tenant: a, jobType: '*'}]": "two items for one quota: a",
    "quotas: [!!python/object/apply:os.getcwd []]": "is not YAML",
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
        (["set", "--tenant", "a", "--reason", "r"], "limit missing"),
        (["set", "--tenant", "a", "--reason", "r", "--max-active", "-1"], "--max-active -1: must be a whole number"),
        (
            ["set", "--tenant", "a", "--reason", "r", "--breaker", "off"],
            "--breaker off: must be on, none, or NAME=N,...; names: failure_rate, ",
        ),
        (["set", "--tenant", "a", "--reason", "r", "--breaker", "min_calls=x"], "--breaker min_calls=x: must be on"),
        (["hold", "--tenant", "a", "--reason", "r", "--until", "soon"], "--until soon: must be a timestamp"),
        (["apply", "no-such-file.yaml"], "cannot read no-such-file.yaml"),
    ],
)
def test_wrong_options_are_usage(words: list[str], message: str) -> None:
    """Exit code 2, without a request."""
    completed = run_main("quota", *words, api="http://127.0.0.1:1")
    assert (completed.returncode, message in completed.stderr) == (2, True), completed.stderr


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("on", {}),
        ("none", None),
        ("failure_rate=0.25", {"failure_rate": 0.25}),
        ("min_calls=5,cooldown_s=none", {"min_calls": 5, "cooldown_s": None}),
    ],
)
def test_a_breaker_is_given_in_one_option(text: str, numbers: dict[str, Any] | None) -> None:
    """The API gets its numbers as an object, beside those of the rule."""
    change = CannedResponse(body=samples.quota_change())
    with serving(CannedResponse(body={"quotas": [samples.quota()], "next": None}), change) as api:
        words = ("quota", "set", "--tenant", "tenant_a", "--reason", "r", "--max-active", "3", "--breaker", text)
        completed = run_main(*words, api=api.url)
    assert completed.returncode == 0, completed.stderr
    assert json.loads(api.requests[1].body) == {"max_active": 3, "breaker": numbers, "reason": "r"}


def test_the_log_shows_breakers_and_jobs() -> None:
    """Entries that have no rule before and after them are shown as well; an older one has a job's id beside them."""
    entry = {
        "gate_id": "0" * 16,
        "actor": "system",
        "reason": "r",
        "at": "2026-05-01T00:00:00Z",
        "prev_hash": "",
        "hash": "",
    }
    opened = {"state": "OPEN", "epoch": 1, "bad": 6, "calls": 10, "until": "2026-05-01T00:01:00+00:00"}
    half_open = {"state": "HALF_OPEN", "epoch": 1, "bad": 0, "calls": 0, "allow": 1}
    data = [
        ("BREAKER_OPENED", {"before": {"breaker": half_open}, "after": {"breaker": opened}}),
        ("BREAKER_HALF_OPEN", {"before": {"breaker": opened}, "after": {"breaker": half_open}}),
        ("JOB_ADMITTED", {"job_id": "job_0"}),
        ("JOB_ADMITTED", {"job_id": "job_1", "after": {"job_id": "job_1"}}),
    ]
    entries = [{**entry, "seq": number, "type": type_, "data": each} for number, (type_, each) in enumerate(data, 1)]
    pages = ({"quotas": [samples.quota()], "next": None}, {"entries": entries, "next": None})
    with serving(*(CannedResponse(body=page) for page in pages)) as api:
        completed = run_main("quota", "log", "--tenant", "tenant_a", api=api.url, terminal=True, COLUMNS="300")
    assert completed.returncode == 0, completed.stderr
    assert "breaker OPEN until 2026-05-01T00:01:00Z, 6 of 10 failed" in completed.stdout
    assert "breaker HALF_OPEN, at most 1 active" in completed.stdout
    assert ["admitted job_0" in completed.stdout, "admitted job_1" in completed.stdout] == [True, True]
