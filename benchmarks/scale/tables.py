"""The tables of docs/explanation/scale.md."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from benchmarks.scale.cost import (
    MILLION,
    MONTHLY_PER_S,
    STANDARD,
    fixed_a_month,
    needs,
    per_million,
    swept_per_s,
    time_usd,
    watched,
)
from benchmarks.scale.events import COLUMNS, DELIVERIES
from benchmarks.scale.governance import (
    ALONE,
    CALL_S,
    CREATIONS_TOGETHER,
    ENDS_TOGETHER,
    TOGETHER,
    by_default,
    loads,
    waiting_rows,
)
from benchmarks.scale.heads import COLUMNS as HEADS
from benchmarks.scale.job import (
    EMULATED_HOST_S,
    GATED,
    LANES,
    MEASURED,
    MICROSOFT_HOST_S,
    MICROSOFT_WORKER_S,
    REPLIES,
    ROWS,
    Job,
)
from benchmarks.scale.lanes import busiest, drain
from benchmarks.scale.markdown import table
from benchmarks.scale.month_tables import months, options, parts, promises
from benchmarks.scale.prices import MONTH_S, PRICES, TABLE_PARTITION

STEPS = (1, 2, 3)
RATES = (10, 100, 1_000, 10_000)
TENANTS = (16, 100, 1_000)
SKEWS = (0.0, 0.5, 1.0)
BURST = 10_000
HANDLING_S = 0.03
CALLS = (4, 16, 64)
#: `maxConcurrentCalls` in host.json, and instances of a function
CALLS_AN_INSTANCE, INSTANCES = 16, (1, 4, 16)


def counts() -> str:
    rows = {
        "Service Bus messages": "messages",
        "Service Bus operations (send, receive, complete)": "bus_operations",
        "Service Bus bytes, in and out": "bus_bytes",
        "blob writes (results)": "blob_writes",
        "blob reads (records of failed attempts, inputs, the result to copy)": "blob_reads",
        "other blob operations (metadata of results)": "blob_others",
        "table writes (requests)": "table_writes",
        "table reads (requests)": "table_reads",
        "table entities written": "entities_written",
        "table entities read": "entities_read",
        "rows retained": "rows_kept",
        "orchestrator episodes": "episodes",
        "activities": "activities",
        "function executions": "executions",
        "Durable Task Scheduler actions": "scheduler_actions",
    }
    body = [[name, *(f"{getattr(Job(n), field):,}" for n in STEPS)] for name, field in rows.items()]
    return table(["count for a job of", *(f"{n} step{'s' if n > 1 else ''}" for n in STEPS)], body)


def gates() -> str:
    rows = {
        "table writes (requests)": "table_writes",
        "table reads (requests)": "table_reads",
        "table entities written": "entities_written",
        "Service Bus messages": "messages",
        "function executions": "executions",
    }
    body = [[name, "0", *(f"{getattr(each, field):,}" for each in GATED.values())] for name, field in rows.items()]
    return table(["added to a job", "without quotas", *GATED], body)


def events() -> str:
    rows = {
        "hints": "hints",
        "Service Bus messages (hints, and events to the topic)": "messages",
        "Service Bus operations, without subscriptions": "bus_operations",
        **_TABLE_ROWS,
        "executions of `tell`": "executions",
        "USD a million jobs, without the time of `tell`": "usd",
    }
    return _counted("added to a 3-step job", COLUMNS, rows)


def deliveries() -> str:
    rows = {
        "Service Bus messages": "messages",
        "Service Bus operations (send, receive, complete)": "bus_operations",
        **_TABLE_ROWS,
        "executions of `deliver`": "executions",
        "USD a million deliveries, without the time of `deliver`": "usd",
    }
    return _counted("a delivery of an event", DELIVERIES, rows)


def heads() -> str:
    rows = {
        "table writes (requests)": "table_writes",
        "table reads (requests)": "table_reads",
        "table entities written": "entities_written",
        "rows retained for `LUCIUS_CHANGE_LOG_DAYS`": "rows_kept",
        "blob writes and lists": "blob_writes",
        "blob reads": "blob_reads",
        "signatures": "signatures",
        "USD for a million of these": "usd",
    }
    return _counted("added to `feed` by heads", HEADS, rows)


_TABLE_ROWS = {
    "table writes (requests)": "table_writes",
    "table reads (requests)": "table_reads",
    "table entities written": "entities_written",
    "rows retained for `LUCIUS_FEED_DAYS`": "rows_kept",
}


def _counted(head: str, columns: Mapping[str, object], rows: Mapping[str, str]) -> str:
    """Returns a table of counts. `rows` has the attribute for each row."""
    body = [[name, *(_plain(getattr(each, field)) for each in columns.values())] for name, field in rows.items()]
    return table([head, *columns], body)


def cost() -> str:
    columns = [per_million(Job(n)) for n in STEPS]
    body = [[name, *(f"{column[name]:.2f}" for column in columns)] for name in columns[0]]
    body.append(["**sum**", *(f"**{sum(column.values()):.2f}**" for column in columns)])
    return table(["USD a million jobs of", *(f"{n} step{'s' if n > 1 else ''}" for n in STEPS)], body)


def flex() -> str:
    rates = (MONTHLY_PER_S, 3, 10, 50)
    names = {"http": "HTTP", "durable": "Durable", REPLIES: "replies, one function"}
    body = [
        [
            names[group.name],
            f"{group.executions}",
            f"{group.wall_s * 1000:.0f}",
            *(f"{time_usd(group, rate):.2f}" for rate in rates),
        ]
        for group in Job(3).groups
    ]
    sums = [sum(time_usd(group, rate) for group in Job(3).groups) for rate in rates]
    body.append(["**sum**", "", "", *(f"**{usd:.2f}**" for usd in sums)])
    apart = replace(Job(3).groups[-1], functions=LANES)
    body.append(
        ["replies with 16 functions instead of one", "", "", *(f"{time_usd(apart, rate):.2f}" for rate in rates)]
    )
    head = ["USD a million 3-step jobs for time", "executions a job", "wall ms an execution"]
    return table([*head, *(f"at {rate:.2g} jobs/s" for rate in rates)], body)


def microsoft() -> str:
    rows = [
        (f"Microsoft's host, commit {MEASURED['commit']}", MICROSOFT_HOST_S),
        ("Microsoft's Python worker with the app, in the same run", MICROSOFT_WORKER_S),
        ("the emulated host with the app, in the same comparison", EMULATED_HOST_S),
        ("the emulated host with the app, by `make bench`", ROWS[3]["cpu_ms_per_job"]["host"] / 1000),
    ]
    return table(["process", "CPU seconds of a 3-step job"], [[name, f"{seconds:.3g}"] for name, seconds in rows])


def fixed() -> str:
    return table(["resource", "USD a month"], [[name, f"{usd:.2f}"] for name, usd in fixed_a_month().items()])


def limits() -> str:
    body = []
    for need in needs(Job(3)):
        most = "any number" if need.most is None else f"{need.most:,}"
        ends = "" if need.ends_at is None else f"{_round(need.ends_at):,}"
        body.append([f"[{need.thing}]({need.page})", f"{_round(need.jobs_per_s):,}", most, ends])
    return table(["resource", "3-step jobs/s each", "maximum in one deployment", "limit, jobs/s"], body)


def rates() -> str:
    columns = {rate: {need.thing: need.count(rate) for need in needs(Job(3))} for rate in RATES}
    body = [[need.thing, *(f"{columns[rate][need.thing]:,}" for rate in RATES)] for need in needs(Job(3))]
    monthly = [sum(per_million(Job(3), rate).values()) * rate * MONTH_S / MILLION for rate in RATES]
    body.append([f"USD a month at that rate, {STANDARD} prices", *(f"{usd:,.0f}" for usd in monthly)])
    return table(["number needed at 3-step jobs/s", *(f"{rate:,}" for rate in RATES)], body)


def sweepers() -> str:
    rows = [("3-step jobs/s, checked once and cleared", swept_per_s()), ("jobs that have not ended", watched())]
    counts = (1, 4, 16)
    return table(
        ["number of sweepers", *map(str, counts)],
        [[name, *(f"{_round(each * count):,}" for count in counts)] for name, each in rows],
    )


def tenant_counts() -> str:
    waiting = waiting_rows()
    rows = [
        ("ended jobs in a turn", "1", f"{ENDS_TOGETHER}", "1"),
        ("created jobs in a transaction", "1", f"{CREATIONS_TOGETHER}", "1"),
        ("rows of the tenant's partition, written and read", f"{ALONE.rows:g}", f"{TOGETHER.rows:.3g}", f"{waiting}"),
        (
            f"jobs/s at the partition's {TABLE_PARTITION.per_s:,} rows a second",
            *(
                f"{_round(each):,}"
                for each in (ALONE.by_partition, TOGETHER.by_partition, TABLE_PARTITION.per_s / waiting)
            ),
        ),
        ("requests in sequence under one ETag", f"{ALONE.calls:g}", f"{TOGETHER.calls:.2g}", ""),
        (
            f"jobs/s at {CALL_S * 1000:g} ms a request",
            f"{_round(ALONE.by_calls):,}",
            f"{_round(TOGETHER.by_calls):,}",
            "",
        ),
    ]
    admitted = ["admitted immediately, alone", "admitted immediately, together"]
    return table(["a job of a tenant with a quota", *admitted, "waits, alone"], [[*row] for row in rows])


def governance() -> str:
    body = [
        [each.name, f"{_round(each.per_s):,}", f"{each.limit:,} ({each.whose})", f"{_round(each.share * 100):g} %"]
        for each in loads(1_000)
    ]
    return table(["load at 1,000 jobs/s", "rows/s", "limit, rows/s", "share of the limit"], body)


def defaults() -> str:
    body = [
        [f"[{need.thing}]({need.page})", f"{has:,}", f"{_round(has * need.jobs_per_s):,}", f"{_round(times):g}", more]
        for need, has, times, more in by_default(1_000)
    ]
    head = ["resource", "default number", "3-step jobs/s", "multiple needed for 1,000 jobs/s", "way to increase"]
    return table(head, body)


def skew() -> str:
    body = []
    for tenants in TENANTS:
        for exponent in SKEWS:
            name = f"{tenants:,} tenants, " + ("of one size" if exponent == 0 else f"Zipf {exponent}")
            body.append([name, *(f"{busiest(tenants, exponent, mode):.2f}" for mode in ("DEFAULT", "BURST"))])
    return table(["load of the busiest lane over an even share", "DEFAULT", "BURST"], body)


def drains() -> str:
    body = []
    for calls in CALLS:
        for mode in ("DEFAULT", "BURST"):
            measured = drain(mode, burst=BURST, calls_a_lane=calls, handling_s=HANDLING_S, neighbour_every_s=1)
            body.append([f"{mode}, {calls} calls a lane", f"{measured.drained_s:.1f}", f"{measured.neighbour_s:.1f}"])
    return table(["mode and calls", "time to drain the burst, s", "maximum wait of the other tenant, s"], body)


def reply_s(cores: float = 1) -> float:
    """Returns the seconds that a reply takes while its instance handles `CALLS_AN_INSTANCE` replies on `cores`."""
    [replies] = (group for group in Job(3).groups if group.name == REPLIES)
    return max(HANDLING_S, CALLS_AN_INSTANCE * replies.cpu_s / replies.executions / cores)


def shared() -> str:
    """Returns the effect of a burst of one lane on another lane."""
    names = {"OTHER LANE": "16 functions, {} of the lane", "SHARED": "one function, {}"}
    body = []
    for mode, name in names.items():
        for count in INSTANCES:
            calls = count * CALLS_AN_INSTANCE
            measured = drain(mode, burst=BURST, calls_a_lane=calls, handling_s=reply_s(), neighbour_every_s=1)
            instances = f"{count} instance{'s' if count > 1 else ''}"
            body.append([name.format(instances), f"{measured.drained_s:.0f}", f"{measured.neighbour_s:.1f}"])
    head = ["10,000 replies of one lane", "time to drain, s", "maximum wait of a reply of another lane, s"]
    return table(head, body)


def prices() -> str:
    return table(
        ["USD", "unit", "price page", "other source"],
        [
            [
                "not read" if p.listed is None else f"{p.listed:g}",
                p.unit,
                p.page,
                p.compared.partition(", ")[2],
            ]
            for p in PRICES.values()
        ],
    )


TABLES = {
    "counts": counts,
    "gates": gates,
    "events": events,
    "deliveries": deliveries,
    "heads": heads,
    "cost": cost,
    "flex": flex,
    "microsoft": microsoft,
    "fixed": fixed,
    "limits": limits,
    "rates": rates,
    "sweepers": sweepers,
    "tenant-counts": tenant_counts,
    "governance": governance,
    "defaults": defaults,
    "skew": skew,
    "drains": drains,
    "shared": shared,
    "months": months,
    "options": options,
    "parts": parts,
    "promises": promises,
    "prices": prices,
}


def _plain(number: float) -> str:
    return f"{number:,.0f}" if number == int(number) else f"{number:,.2f}"


def _round(number: float) -> float:
    """Rounds to two significant digits: the inputs are no more precise."""
    rounded = float(f"{number:.2g}")
    return int(rounded) if rounded == int(rounded) else rounded
