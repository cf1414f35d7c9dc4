"""The tables of docs/explanation/scale.md with prices of months."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from benchmarks.scale.cost import MILLION
from benchmarks.scale.deployment import NAMES, PLAN, PREMIUM, Deployment, read
from benchmarks.scale.job import BLOB_OTHERS_A_STEP, RECORD_BYTES, Job
from benchmarks.scale.markdown import table
from benchmarks.scale.month import month
from benchmarks.scale.prices import PRICES

JOBS_A_MONTH = (0, 10_000, 1_000_000, 100_000_000)
OPTION_JOBS = (0, 10_000, 100_000, 1_000_000, 10_000_000, 80_000_000)


def months() -> str:
    """Returns the table of a month's price for each parameter file, by the number of jobs."""
    body = []
    for name in NAMES:
        deployment = read(name)
        found = [month(deployment, jobs) for jobs in JOBS_A_MONTH]
        body.append([f"`{name}.bicepparam`", *(f"{each.usd:,.0f}{' ¹' if each.beyond else ''}" for each in found)])
    return table(["USD a month by 3-step jobs a month", *(f"{jobs:,}" for jobs in JOBS_A_MONTH)], body)


#: a small deployment on Azure Storage
_SMALL = Deployment()
_READY = {"http": 1, "durable": 1, "replies": 1}
OPTIONS = {
    "without (a), (b), (c), (e): 2 GB, 16 reply functions": replace(_SMALL, shared_replies=False),
    "(a) 512 MB": replace(_SMALL, gb=0.5, shared_replies=False),
    "(b) 2 GB, one reply function": _SMALL,
    "(a) and (b)": replace(_SMALL, gb=0.5),
    "(b) and (c): each group always ready": replace(_SMALL, ready=_READY),
    "(a), (b) and (c)": replace(_SMALL, gb=0.5, ready=_READY),
    "(e) App Service B1": replace(_SMALL, hosting=PLAN, size="B1", shared_replies=False),
    "(e) App Service P0v3": replace(_SMALL, hosting=PLAN, size="P0v3", shared_replies=False),
    "(e) Elastic Premium EP1": replace(_SMALL, hosting=PREMIUM, size="EP1", shared_replies=False),
}
#: options of `OPTIONS` that are also priced without public events and with all traces
_OTHERWISE = ("(a) and (b)", "(e) App Service B1")


def options() -> str:
    """Returns the table of a month's price for each option to run the app, by the number of jobs."""
    rows = [(name, each, True) for name, each in OPTIONS.items()]
    rows += [(f"{name}, `LUCIUS_EVENTS=off`", OPTIONS[name], False) for name in _OTHERWISE]
    rows += [(f"{name}, all traces", replace(OPTIONS[name], traces_kept=1.0), True) for name in _OTHERWISE]
    body = [
        [name, *(f"{month(each, jobs, events=events).usd:,.0f}" for jobs in OPTION_JOBS)] for name, each, events in rows
    ]
    return table(["USD a month by 3-step jobs a month", *(f"{jobs:,}" for jobs in OPTION_JOBS)], body)


#: the two deployments that have a cost goal
GOALS = {"(a) and (b)": 200, "(e) App Service B1": 125}


def parts() -> str:
    """Returns the table of the cost of a million 3-step jobs a month by part, for the deployments with a goal."""
    found = [{row.what: row.usd or 0.0 for row in month(OPTIONS[name], MILLION).rows} for name in GOALS]
    names = list(dict.fromkeys(name for each in found for name in each))
    body = [[name, *(f"{each[name]:.2f}" if name in each else "" for each in found)] for name in names]
    body.append(["**sum**", *(f"**{sum(each.values()):.2f}**" for each in found)])
    body.append(["goal", *map(str, GOALS.values())])
    spans = Job(3).host_span_bytes * MILLION / 1e9 * PRICES["LOGS_GB"].usd
    body.append(["not in the sum: spans of the Functions host, at most", *[f"{spans:.2f}"] * len(GOALS)])
    return table(["part, USD a month", *(f"{name}" for name in GOALS)], body)


def promises() -> str:
    """Returns the table of the cost of each guarantee for a million 3-step jobs a month, by deployment with a goal."""
    job, deployments = Job(3), [OPTIONS[name] for name in GOALS]

    def less(**changes: Any) -> list[float]:
        return [month(each, MILLION).usd - month(replace(each, **changes), MILLION).usd for each in deployments]

    events = [month(each, MILLION).usd - month(each, MILLION, events=False).usd for each in deployments]
    # the record of a failed attempt is looked for too
    attempts = job.steps * (BLOB_OTHERS_A_STEP * PRICES["BLOB_OTHERS"].usd + PRICES["BLOB_READS"].usd)
    records = (job.record_bytes - RECORD_BYTES) * MILLION / 1e9 * PRICES["LOGS_GB"].usd
    rows = {
        "a redelivered directive does not repeat its work: metadata of each result": [attempts] * 2,
        "each transition writes a log record, in addition to its row in the history": [records] * 2,
        "a burst on one lane delays no other lane: a function for each lane": [0.0, less(shared_replies=True)[1]],
        "public events": events,
        "a tenth of the traces": less(traces_kept=0.0),
    }
    return table(
        ["promise", *(f"USD a month, {name}" for name in GOALS)],
        [[name, *(f"{usd:.2f}" for usd in each)] for name, each in rows.items()],
    )
