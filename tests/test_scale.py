"""docs/explanation/scale.md: its tables are the model's, and its claims about the lanes hold for other seeds too."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace

import pytest

from benchmarks.scale.cost import needs, per_million, time_usd
from benchmarks.scale.deployment import NAMES, PLAN, Deployment, read
from benchmarks.scale.governance import ALONE, TOGETHER, by_default, waiting_rows
from benchmarks.scale.job import COUNTED, REPLIES, ROWS, Job
from benchmarks.scale.lanes import LANES, busiest, drain
from benchmarks.scale.month import idle_operations, month, operations_usd
from benchmarks.scale.month_tables import GOALS, OPTIONS
from benchmarks.scale.prices import FLEX_GB_S, MONTH_S, PRICES
from benchmarks.scale.tables import CALLS_AN_INSTANCE, reply_s
from shared.settings import SETTINGS
from tests.jobs import ROOT

SEEDS = range(5)


def test_the_page_has_the_numbers_of_the_model() -> None:
    """Every table of the page is written by the model."""
    check = subprocess.run(
        [sys.executable, "-m", "benchmarks.scale", "--check"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert check.returncode == 0, check.stderr


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_counts_keep_to_the_design(steps: int) -> None:
    """The model's counts are the bounds of the design, so that `make bench` can be held against them."""
    job = Job(steps)
    assert (job.table_writes, job.table_reads) == (4 + 2 * steps, steps + 1)
    assert (job.messages, job.episodes, job.activities) == (3 * steps, 1 + 3 * steps, steps)


def test_what_was_counted_keeps_to_the_bounds() -> None:
    """The recorded run of `make bench`: requests, messages and activities; an episode more for a timer that fires."""
    for steps, row in ROWS.items():
        counted, job = row["per_job"], Job(steps)
        assert counted["table writes"] == job.table_writes
        # of no job: the list of tenants with gates is read once in ten seconds
        assert counted["table reads"] < 0.1
        assert counted["directives"] + counted["replies"] == job.messages
        assert counted["activities"] == job.activities
        assert counted["episodes"] <= job.episodes + 2 * steps
    groups = {name: group["executions_per_job"] for name, group in COUNTED["groups"].items()}
    assert sum(groups.values()) == pytest.approx(Job(3).executions, rel=0.05)


def test_time_costs_less_the_more_jobs_share_it() -> None:
    """A million 3-step jobs: at few a second each execution pays for a second, at many the CPU alone."""
    costs = [sum(time_usd(group, rate) for group in Job(3).groups) for rate in (0.1, 1, 10, 1000)]
    assert costs == sorted(costs, reverse=True)
    single = sum(time_usd(group, 1e-6) for group in Job(3).groups)
    assert single == pytest.approx(Job(3).executions * 1e6 * 2 * FLEX_GB_S.usd, rel=0.01)
    assert costs[-1] == pytest.approx(Job(3).cpu_s / 0.6 * 1e6 * 2 * FLEX_GB_S.usd)


def test_what_ends_first_stands_first() -> None:
    """A Standard namespace ends before the ledger account, and Premium carries more than the account; events cost."""
    ends = {need.thing: need.ends_at or 0 for need in needs(Job(3))}
    namespaces = [f"Standard namespace, events `{mode}`" for mode in ("topic", "feed", "off")]
    assert ends[namespaces[-1]] < ends["ledger account"] < ends["Premium messaging unit"]
    assert [*ends][:3] == namespaces
    assert sum(per_million(Job(1)).values()) < sum(per_million(Job(3)).values())


def test_lanes_cost_next_to_nothing_on_a_plan_and_a_fifth_more_on_flex_consumption() -> None:
    """At a million 3-step jobs a month: why the default of the template depends on the plan (decision 69)."""

    def dearer(deployment: Deployment) -> float:
        lanes, shared = (replace(deployment, shared_replies=one) for one in (False, True))
        return month(lanes, 1_000_000, events=False).usd / month(shared, 1_000_000, events=False).usd

    assert dearer(OPTIONS["(e) App Service B1"]) < 1.05
    assert 1.2 < dearer(OPTIONS["(a) and (b)"]) < 1.3


def test_the_reply_functions_share_less_time_than_they_take_apart() -> None:
    """A million 3-step jobs a month meet both goals, and the page has the sums."""
    usd = {name: month(each, 1_000_000).usd for name, each in OPTIONS.items()}
    flex, plan = usd["(a) and (b)"], usd["(e) App Service B1"]
    assert flex <= GOALS["(a) and (b)"]
    assert plan <= GOALS["(e) App Service B1"]
    page = (ROOT / "docs" / "explanation" / "scale.md").read_text()
    assert f"| **sum** | **{flex:.2f}** | **{plan:.2f}** |" in page
    assert usd["(a) and (b)"] < usd["(a) 512 MB"] < usd["without (a), (b), (c), (e): 2 GB, 16 reply functions"]


@pytest.mark.parametrize("name", NAMES)
def test_a_month_is_the_sum_of_what_it_does(name: str) -> None:
    """More jobs cost more; without a job the hourly prices remain, and no cost that a job causes."""
    idle, some, many = (month(read(name), jobs) for jobs in (0, 1_000_000, 10_000_000))
    assert idle.usd < some.usd < many.usd
    assert not {row.what for row in idle.rows} & {"Tables: operations", "Functions: time of replies"}
    # the one price that could not be read is named, not counted as 0
    assert bool(some.unpriced) == bool(read(name).scheduler)


def test_an_idle_trigger_receives_once_a_minute_in_each_call() -> None:
    """Sixteen listeners that are up cost sixteen times one; the included operations do not pay for both plans."""
    lanes, shared = (idle_operations(Deployment(hosting=PLAN, size="B1", shared_replies=one)) for one in (False, True))
    assert lanes - shared == 15 * 16 * MONTH_S / 60


def test_each_price_names_its_date_and_its_comparison() -> None:
    """Or that no source was found, and the page has the number of those."""
    for price in PRICES.values():
        assert re.fullmatch(r"20\d\d-\d\d-\d\d, .+", price.compared), price.unit
    unpublished = [price for price in PRICES.values() if price.compared.endswith("no readable source found")]
    assert len(unpublished) == 6


def test_operations_cost_less_by_tier() -> None:
    """Of a Standard namespace: none of the first 13 million, and the tiers of Azure's price page behind them."""
    each = [operations_usd(millions) for millions in (13, 100, 2500, 2501)]
    assert each == pytest.approx([0, 87 * 0.8, 87 * 0.8 + 2400 * 0.5, 87 * 0.8 + 2400 * 0.5 + 0.2])


def test_the_price_of_a_parameter_file_is_printed() -> None:
    """The documentation has the output; an unknown name is one line."""

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "benchmarks.scale", *words]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    printed = run("--jobs", "1000000", "--params", "minimal").stdout
    page = (ROOT / "docs" / "explanation" / "scale.md").read_text()
    assert printed.strip() in page
    wrong = run("--params", "none")
    assert (wrong.returncode, wrong.stderr.count("\n")) == (1, 1)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_flooded_lane_delays_other_lanes_in_the_shared_queue_only(seed: int) -> None:
    """The promise of `replies = 'Lanes'`, and the bound of `Shared`: the CPU of the flood over that of the instances.

    With as many instances for all lanes as `Lanes` has, the flood is over before a tenant of its own lane has its turn
    there, and no tenant waits longer than that.
    """

    def waits(mode: str, instances: int) -> float:
        calls = instances * CALLS_AN_INSTANCE
        return drain(
            mode, burst=10_000, calls_a_lane=calls, handling_s=reply_s(), neighbour_every_s=1, seed=seed
        ).neighbour_s

    [replies] = (group for group in Job(3).groups if group.name == REPLIES)
    cpu_s = 10_000 * replies.cpu_s / replies.executions
    assert waits("OTHER LANE", 1) == 0
    assert cpu_s / 2 < waits("SHARED", 1) < cpu_s * 1.1
    assert waits("SHARED", 16) < waits("DEFAULT", 1) / 12


@pytest.mark.parametrize("seed", SEEDS)
def test_burst_is_even_where_default_is_not(seed: int) -> None:
    """Unequal tenants crowd a lane under DEFAULT and none under BURST."""
    assert busiest(100, 1.0, "DEFAULT", seed=seed) > 2
    assert busiest(100, 1.0, "BURST", seed=seed) < 1.1


@pytest.mark.parametrize("seed", SEEDS)
def test_a_burst_drains_about_as_many_times_faster_as_there_are_lanes(seed: int) -> None:
    """One tenant's burst uses one lane under DEFAULT, all of them under BURST; a neighbour waits accordingly."""

    def drained(mode: str):
        return drain(mode, burst=10_000, calls_a_lane=4, handling_s=0.03, neighbour_every_s=1, seed=seed)

    default, burst = drained("DEFAULT"), drained("BURST")
    assert LANES * 0.8 < default.drained_s / burst.drained_s < LANES * 1.1
    assert default.neighbour_s > 5 * burst.neighbour_s


def test_defaults_are_those_of_the_template_and_the_settings() -> None:
    """The values of a deployment without changed settings."""
    template = (ROOT / "infra" / "bicep" / "main.bicep").read_text()
    app = (ROOT / "infra" / "bicep" / "modules" / "function-app.bicep").read_text()
    for line in ("param serviceBusSku string = 'Standard'", "param schedulerSku string = 'Consumption'"):
        assert line in template
    has = {need.thing: count for need, count, *_ in by_default(1_000)}
    assert f"scale.?maximumInstances ?? {has['Functions instance of 2 GB']}" in app
    defaults = {spec.name: spec.default for spec in SETTINGS}
    assert int(defaults["LUCIUS_SWEEPERS"] or 0) == has["sweeper (`LUCIUS_SWEEPERS`)"]
    assert defaults["LUCIUS_EVENTS"] == "feed"


def test_more_that_share_a_turn_cost_a_tenant_less() -> None:
    """Rows and requests of its counts; the computed total at a partition's limit stays below that of its jobs alone."""
    assert TOGETHER.rows < ALONE.rows < waiting_rows()
    assert TOGETHER.by_calls > 10 * ALONE.by_calls
    ends = {need.thing: need.ends_at for need in needs(Job(3))}
    assert TOGETHER.by_partition < (ends["tenant's index partition"] or 0)
