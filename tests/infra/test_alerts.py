"""Alert rules: each can fire, watches what there is, and says what to do."""

from __future__ import annotations

import math
import re
import shlex
import shutil
from pathlib import Path

import click
import pytest
import typer

from infra.checks import alerts
from infra.checks.alerts import Rule
from infra.checks.template import parse, properties, text, walk
from lucius_client.cli.main import app as lucius
from shared.settings import load
from tests.jobs import ROOT, registry

BICEP = ROOT / "infra" / "bicep"
MODULE = BICEP / "modules" / "alerts.bicep"
TEMPLATE = parse(MODULE)
RULES = {str(rule.word("name")): rule for rule in alerts.rules(TEMPLATE)}
RUNBOOK = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
SETTINGS = load(
    {
        "LUCIUS_STORAGE_BACKEND": "memory",
        "LUCIUS_AUTH_MODE": "none",
        "LUCIUS_SERVICEBUS_CONNECTION": "Endpoint=sb://127.0.0.1;SharedAccessKeyName=n;SharedAccessKey=k",
    }
)
#: seconds between two passes of the sweeper, which set the gauges
SWEEP_S = 60
#: a value above a threshold is seen for certain if it stays for two passes
SEEN_S = 2 * SWEEP_S


def _outbox_s() -> float:
    """After ACK timeout and lease an attempt counts, and the next begins at 0 (R8); the shortest of any step."""
    steps = [step for protocol in registry() for step in protocol.definition.steps]
    return min((each.ack_timeout_s or SETTINGS.ack_timeout_s) + (each.lease_s or SETTINGS.lease_s) for each in steps)


def _queued_s() -> float:
    """Where no service listens, every attempt of the first step runs out, with a backoff between two."""
    backoffs = [SETTINGS.ack_backoffs[min(n, len(SETTINGS.ack_backoffs) - 1)] for n in range(SETTINGS.max_attempts - 1)]
    return SETTINGS.max_attempts * _outbox_s() + sum(backoffs)


def _minutes(rule: Rule) -> int:
    return int(re.fullmatch(r"PT(\d+)M", str(rule.word("window")))[1])  # type: ignore[index]


def _passes(rule: Rule) -> float:
    return _minutes(rule) * 60 / SWEEP_S


#: rule to the most that its metric can show in its window; infinite: as many as there are
CEILINGS = {
    "dead-directives": math.inf,
    "dead-replies": math.inf,
    "reply-backlog": math.inf,
    "bus-throttled": math.inf,
    "ledger-throttled": math.inf,
    "not-ready": _passes(RULES["not-ready"]),
    "server-errors": math.inf,
    "queued-jobs": _queued_s() - SEEN_S,
    "oldest-wait": math.inf,
    "breaker-open": 2,
    "webhooks-suspended": math.inf,
    "stuck-jobs": _outbox_s() - SEEN_S,
    "failure-rate": 100,
    "exceptions": math.inf,
    "dependency-faults": math.inf,
    "events-unsent": math.inf,
    "rejected-messages": math.inf,
    "sweeps-failed": _passes(RULES["sweeps-failed"]),
    "logs-capped": math.inf,
}
#: fires below its threshold: the least of a healthy app in the window
FLOORS = {
    "app-down": _passes(RULES["app-down"]),
    "sweeper-silent": _passes(RULES["sweeper-silent"]),
}


def limits(rule: Rule) -> dict[str, int]:
    """What the parameter of its threshold allows, and its default; of a fixed threshold that alone."""
    found = {"default": rule.threshold}
    named = re.match(r"thresholds\.\?(\w+) \?\?", text(rule.properties["threshold"]))
    if named:
        declared = re.search(rf"((?:  @\w+\(.*\)\n)+)  {named[1]}: int\?", MODULE.read_text())
        assert declared is not None, named[1]
        found |= {kind: int(number) for kind, number in re.findall(r"@(m\w+Value)\((\d+)\)", declared[1])}
    return found


def test_every_rule_can_fire() -> None:
    """A threshold, by default or at its largest, lies below what its metric can show; one of silence, within health."""
    assert set(CEILINGS) | set(FLOORS) == set(RULES)
    for name, ceiling in CEILINGS.items():
        allowed = limits(RULES[name])
        assert RULES[name].word("operator") is None, name
        assert max(allowed.values()) < ceiling, name
    for name, floor in FLOORS.items():
        assert RULES[name].word("operator") == "LessThan"
        assert 0 < RULES[name].threshold < floor / 2, name


def test_a_threshold_that_is_rarely_reached_is_found() -> None:
    """900 s of a metric that ends at 930 and is looked at once a minute shows half of the stuck jobs."""
    assert SETTINGS.ack_timeout_s + SETTINGS.lease_s == 930
    assert CEILINGS["stuck-jobs"] < 900


def test_the_passes_are_those_of_the_schedule() -> None:
    """The windows count on a pass a minute."""
    assert SETTINGS.sweep_schedule == "0 * * * * *"


def test_the_app_is_down_before_the_sweeper_is_silent() -> None:
    """Ten minutes and an evaluation, not half an hour."""
    assert 2 * (_minutes(RULES["app-down"]) + 5) <= _minutes(RULES["sweeper-silent"])


def test_nineteen_failures_of_nineteen_wake_somebody() -> None:
    """Few jobs are counted by how many failed, never by how many ended; the parameter takes the number's place."""
    query = (BICEP / "queries" / "failure-rate.kql").read_text()
    replaced = re.search(r"failure-rate\.kql'\),\s+'([^']+)',\s+'([^']+)'", MODULE.read_text())
    assert replaced is not None
    assert (query.count(replaced[1]), replaced[2]) == (1, "Failed >= ${thresholds.?failedJobs ?? 2}")
    after = query.partition("summarize")[2]
    assert [line for line in after.splitlines() if line.startswith("| where")] == ["| where Failed >= 2"]
    assert RULES["failure-rate"].threshold < 100 * 19 / 19


@pytest.mark.parametrize("name", RULES)
def test_a_rule_names_what_to_do(name: str) -> None:
    """Its section of the runbook is there, and its line is one that `lucius` takes."""
    rule = RULES[name]
    sections = {title.lower().replace(" ", "-") for title in re.findall(r"^## (.+)$", RUNBOOK, re.MULTILINE)}
    assert rule.word("section") in sections
    program, *line = shlex.split(str(rule.word("command")))
    assert program == "lucius"
    command: click.Command = typer.main.get_command(lucius)
    while isinstance(command, click.Group):
        command = command.commands[line.pop(0)]
    command.make_context(str(command.name), line)


def test_the_description_has_all_of_it() -> None:
    """What it means, the section and the line, of metric and log rules alike."""
    module = parse(BICEP / "modules" / "alert-rules.bicep")
    for resource in module.resources:
        [description] = [
            text(value)
            for node in walk(resource.node)
            if node.type == "object" and (value := properties(node).get("description")) is not None
        ]
        for part in ("${alert.means}", "docs/operations.md#${alert.section}.", "${alert.command}"):
            assert part in description


@pytest.mark.parametrize(
    ("was", "becomes", "reason"),
    [
        ("'DeadletteredMessages'", "'DeadLetterMessages'", "has no metric DeadLetterMessages"),
        ("'Microsoft.ServiceBus/namespaces'", "'Microsoft.ServiceBus/namespace'", "has no metric"),
        ("dimension: 'EntityName'", "dimension: 'Entity'", "has no dimension Entity"),
        (
            "metric: 'Transactions'\n    aggregation: 'Total'",
            "metric: 'Transactions'\n    aggregation: 'Maximum'",
            "Max",
        ),
        ("measure: 'Oldest'", "measure: 'Age'", "puts out no Age"),
        ("dimension: 'Dependency'", "dimension: 'Dependencies'", "puts out no Dependencies"),
        ("queries/not-ready.kql", "queries/ready.kql", "query is not there"),
        ("    measure: 'Faults'\n", "", "has no measure"),
        ("var logAlerts", "var logRules", "no rule was read in logAlerts"),
    ],
)
def test_a_rule_over_what_is_not_there_is_found(tmp_path: Path, was: str, becomes: str, reason: str) -> None:
    """A metric, a dimension, an aggregation, a column and a query, each misspelt once."""
    shutil.copytree(BICEP / "queries", tmp_path / "queries")
    (tmp_path / "modules").mkdir()
    copy = tmp_path / "modules" / MODULE.name
    shutil.copy(MODULE, copy)
    assert alerts.check(parse(copy)) == []
    assert was in MODULE.read_text()
    copy.write_text(MODULE.read_text().replace(was, becomes, 1))
    [found] = alerts.check(parse(copy))
    assert reason in found.text


def test_existing_action_groups_get_alerts() -> None:
    """They come from the environment, commas between, and go with or without a group for the emails."""
    given = "filter(split(readEnvironmentVariable('LUCIUS_ALERT_ACTION_GROUPS', ''), ','), id => !empty(id))"
    for name in ("dev", "prod"):
        assert f"param actionGroupIds = {given}\n" in (BICEP / f"{name}.bicepparam").read_text()
    [module] = [each for each in parse(BICEP / "main.bicep").modules if each.path == "modules/alerts.bicep"]
    assert text(module.parameters["actionGroupIds"]) == "actionGroupIds"
    [group] = TEMPLATE.resources
    assert "if (!empty(emails))" in text(group.node)
    [rules] = TEMPLATE.modules
    notified = text(rules.parameters["actionGroupIds"])
    assert notified == "empty(emails) ? actionGroupIds : concat(actionGroupIds, [actionGroup.id])"
