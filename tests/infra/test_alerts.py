"""Alert rules: each can fire, watches an existing metric, and has the action in its description."""

from __future__ import annotations

import math
import re
import shlex
from pathlib import Path
from typing import Any

import click
import pytest
import typer

from infra.checks import alerts
from infra.checks.finding import Finding
from infra.checks.snapshots import Resource, Snapshot
from lucius_client.cli.main import app as lucius
from scripts.generate.operator_tables import alert_rules
from shared.settings import load
from tests.infra.deployed import deployed
from tests.jobs import ROOT, registry

BICEP = ROOT / "infra" / "bicep"
MODULE = BICEP / "modules" / "alerts.bicep"
TEXT = MODULE.read_text(encoding="utf-8")
Rule = dict[str, str]
RULES = {rule["name"]: rule for rule in alert_rules()}
RUNBOOK = (ROOT / "docs" / "guides" / "operations.md").read_text(encoding="utf-8")
#: title and text of a section
_SECTION = r"(?ms)^## (.+?)$\n(.*?)(?=^## |\Z)"
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
    """Returns the seconds until a job without a service fails: every attempt of the first step times out, with a
    backoff between two.
    """
    backoffs = [SETTINGS.ack_backoffs[min(n, len(SETTINGS.ack_backoffs) - 1)] for n in range(SETTINGS.max_attempts - 1)]
    return SETTINGS.max_attempts * _outbox_s() + sum(backoffs)


def _minutes(rule: Rule) -> int:
    return int(re.fullmatch(r"PT(\d+)M", rule["window"])[1])  # type: ignore[index]


def _threshold(rule: Rule) -> int:
    """The number that is in effect if no parameter gives another."""
    return int(rule["threshold"].rpartition("?? ")[2])


def _passes(rule: Rule) -> float:
    return _minutes(rule) * 60 / SWEEP_S


#: by rule: the maximum that its metric can have in its window; infinite: no maximum
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
    "silent-services": math.inf,
    "failure-rate": 100,
    "exceptions": math.inf,
    "dependency-faults": math.inf,
    "events-unsent": math.inf,
    "rejected-messages": math.inf,
    "signing-failed": math.inf,
    "export-failed": math.inf,
    "sweeps-failed": _passes(RULES["sweeps-failed"]),
    "logs-capped": math.inf,
}
#: fires below its threshold: the least of a healthy app in the window
FLOORS = {
    "app-down": _passes(RULES["app-down"]),
    "sweeper-silent": _passes(RULES["sweeper-silent"]),
    # `prune` runs each hour, and the window has six
    "anchor-missed": 5,
}


def limits(rule: Rule) -> dict[str, int]:
    """Returns the allowed values of a threshold's parameter, and its default; a fixed threshold alone."""
    found = {"default": _threshold(rule)}
    named = re.match(r"thresholds\.\?(\w+) \?\?", rule["threshold"])
    if named:
        declared = re.search(rf"((?:  @\w+\(.*\)\n)+)  {named[1]}: int\?", TEXT)
        assert declared is not None, named[1]
        found |= {kind: int(number) for kind, number in re.findall(r"@(m\w+Value)\((\d+)\)", declared[1])}
    return found


def test_every_rule_can_fire() -> None:
    """A threshold, by default or at its maximum, is below the maximum of its metric; one of silence is within the
    normal range.
    """
    assert set(CEILINGS) | set(FLOORS) == set(RULES)
    for name, ceiling in CEILINGS.items():
        allowed = limits(RULES[name])
        assert RULES[name].get("operator") is None, name
        assert max(allowed.values()) < ceiling, name
    for name, floor in FLOORS.items():
        assert RULES[name]["operator"] == "LessThan"
        assert 0 < _threshold(RULES[name]) < floor / 2, name


def test_a_threshold_that_is_rarely_reached_is_found() -> None:
    """A metric that ends at 930 s and is checked once a minute exceeds 900 s for half of the stuck jobs."""
    assert SETTINGS.ack_timeout_s + SETTINGS.lease_s == 930
    assert CEILINGS["stuck-jobs"] < 900


def test_the_passes_are_those_of_the_schedule() -> None:
    """The windows rely on one sweep per minute."""
    assert SETTINGS.sweep_schedule == "0 * * * * *"


def test_the_app_is_down_before_the_sweeper_is_silent() -> None:
    """Ten minutes and an evaluation, not half an hour."""
    assert 2 * (_minutes(RULES["app-down"]) + 5) <= _minutes(RULES["sweeper-silent"])


def test_nineteen_failures_of_nineteen_wake_somebody() -> None:
    """For few jobs the number of failures counts, never the number of ends; the parameter replaces the number."""
    query = (BICEP / "queries" / "failure-rate.kql").read_text()
    replaced = re.search(r"failure-rate\.kql'\),\s+'([^']+)',\s+'([^']+)'", TEXT)
    assert replaced is not None
    assert (query.count(replaced[1]), replaced[2]) == (1, "Failed >= ${thresholds.?failedJobs ?? 2}")
    after = query.partition("summarize")[2]
    assert [line for line in after.splitlines() if line.startswith("| where")] == ["| where Failed >= 2"]
    assert _threshold(RULES["failure-rate"]) < 100 * 19 / 19


@pytest.mark.parametrize("name", RULES)
def test_a_rule_names_what_to_do(name: str) -> None:
    """Its section of the runbook has its severity, an impact, three commands that `lucius` accepts, and its line."""
    rule = RULES[name]
    sections = {title.lower().replace(" ", "-"): text for title, text in re.findall(_SECTION, RUNBOOK)}
    text = sections[rule["section"]]
    assert re.search(rf"^\*\*[^\n]*[Ss]everity {rule['severity']}\b[^\n]*Impact:\*\* ", text, re.MULTILINE)
    commands = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)[0].splitlines()
    assert len(commands) == 3
    for command in (*commands, rule["command"]):
        if command.startswith("lucius "):
            _check_command(command)


def _check_command(text: str) -> None:
    _, *line = shlex.split(text, comments=True)
    command: click.Command = typer.main.get_command(lucius)
    while isinstance(command, click.Group):
        command = command.commands[line.pop(0)]
    command.make_context(str(command.name), line)


def test_the_description_has_all_of_it() -> None:
    """Its meaning, the section and the line, for metric and log rules."""
    given = {
        each["name"].removeprefix("lucius-prod-"): each["properties"]["description"]
        for kind in (alerts.METRIC, alerts.LOG)
        for each in deployed("prod", kind)
    }
    assert given == {
        name: f"{rule['means']} Runbook: docs/guides/operations.md#{rule['section']}. Begin with: {rule['command']}"
        for name, rule in RULES.items()
    }


@pytest.mark.parametrize(
    ("kind", "criterion", "reason"),
    [
        (alerts.METRIC, {"metricName": "DeadLetterMessages"}, "has no metric DeadLetterMessages"),
        (alerts.METRIC, {"metricNamespace": "Microsoft.ServiceBus/namespace"}, "has no metric"),
        (alerts.METRIC, {"dimensions": [{"name": "Entity"}]}, "has no dimension Entity"),
        (alerts.METRIC, {"timeAggregation": "Total"}, "has no aggregation Total"),
        (alerts.LOG, {"metricMeasureColumn": "Age"}, "returns no column Age"),
        (alerts.LOG, {"dimensions": [{"name": "Dependencies"}]}, "returns no column Dependencies"),
        (alerts.LOG, {"query": "AppMetrics\n| summarize Age = max(Max) by Lane"}, "returns no column Oldest"),
        (alerts.LOG, {"query": "AppTraces\n| evaluate bag_unpack(Properties)"}, "is not a known operator"),
    ],
)
def test_a_rule_over_what_is_not_there_is_found(kind: str, criterion: dict[str, Any], reason: str) -> None:
    """A metric, a dimension, an aggregation, a column and a query, each wrong once."""
    good = {
        "metricNamespace": "Microsoft.ServiceBus/namespaces",
        "metricName": "DeadletteredMessages",
        "timeAggregation": "Maximum",
        "dimensions": [{"name": "EntityName"}],
    }
    if kind == alerts.LOG:
        query = "AppMetrics\n| summarize Oldest = max(Max) by Lane"
        good = {"query": query, "metricMeasureColumn": "Oldest", "dimensions": [{"name": "Lane"}]}

    def found(given: dict[str, Any]) -> list[Finding]:
        rule = Resource(kind, "rule", {"properties": {"criteria": {"allOf": [given]}}})
        return alerts.check(Snapshot(Path("dev.bicepparam"), (rule,)))

    assert found(good) == []
    [wrong] = found(good | criterion)
    assert reason in wrong.text


def test_existing_action_groups_get_alerts() -> None:
    """They come from the environment, separated by commas, with or without a group for the emails."""
    given = "filter(split(readEnvironmentVariable('LUCIUS_ALERT_ACTION_GROUPS', ''), ','), id => !empty(id))"
    for name in ("dev", "prod"):
        assert f"param actionGroupIds = {given}\n" in (BICEP / f"{name}.bicepparam").read_text()
    for kind, path in ((alerts.METRIC, "actions"), (alerts.LOG, "actions")):
        assert all(each["properties"][path] for each in deployed("dev", kind))
    assert "    actionGroupIds: empty(emails) ? actionGroupIds : concat(actionGroupIds, [actionGroup.id])\n" in TEXT
    assert "    actionGroupIds: actionGroupIds\n" in (BICEP / "observability.bicep").read_text()
