"""Counts of a job with one to three steps: requests, messages, episodes, executions, and CPU by the code that ran."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

from benchmarks.jobs.load import STEPS, THREE, loading
from benchmarks.jobs.stack import Invocation, running, wait_for_log
from benchmarks.jobs.tables import percentiles

AT_ONCE = 16
#: number of functions of the host's profile that are shown
_STEPS = 12
_TYPES = ("OCR", "OCR_EMBEDDING", "OCR_EMBEDDING_SIS")


async def counts(jobs: int) -> list[dict[str, Any]]:
    """Returns a row for each number of steps: counts and CPU per job at saturation, without recording."""
    rows = []
    with running() as stack:
        async with loading(stack) as load:
            assert load.services is not None
            for request_type in _TYPES:
                wait_for_log()
                tables, durable, cpu, services = stack.tables(), stack.durable(), stack.cpu_s(), load.services.cpu_s()
                driver, app = time.process_time(), stack.app_cpu_s()
                load.services.report()
                ran = await load.saturated(request_type, jobs, AT_ONCE)
                cpu_after, services_after, driver = stack.cpu_s(), load.services.cpu_s(), time.process_time() - driver
                durable_after, app = stack.durable(), stack.app_cpu_s() - app
                wait_for_log()
                seen = load.services.report()
                used = {name: (cpu_after[name] - cpu[name]) * 1000 / jobs for name in cpu}
                requests = _per_job(stack.tables(), tables, jobs)
                rows.append(
                    {
                        "steps": len(STEPS[request_type]),
                        "jobs": jobs,
                        "jobs_per_s": jobs / ran.seconds,
                        "per_job": {
                            "table writes": requests.get("table transactions", 0) + requests.get("table writes", 0),
                            "table reads": requests.get("table reads", 0),
                            **_per_job(durable_after, durable, jobs),
                            "directives": len(seen["directives"]) / jobs,
                            "replies": len(seen["reply_bytes"]) / jobs,
                            "directive bytes": sum(each[2] for each in seen["directives"]) / jobs,
                            "reply bytes": sum(seen["reply_bytes"]) / jobs,
                        },
                        "cpu_ms_per_job": {
                            **used,
                            "services": (services_after - services) * 1000 / jobs,
                            "driver": driver * 1000 / jobs,
                        },
                        "app_cpu_ms_per_job": app * 1000 / jobs,
                    }
                )
    return rows


async def groups(jobs: int) -> dict[str, Any]:
    """Returns the figures of a 3-step job by scale group of Flex Consumption, and the host's CPU by function. Records
    the host.

    For the figures by scale group, jobs run one after another, and no function waits for another job. These wall times
    are those of an idle machine. The host's CPU is measured at saturation.
    """
    with running(recorded=True) as stack:
        async with loading(stack) as load:
            began = time.monotonic()
            alone = await load.alone(THREE, max(5, jobs // 4))
            idle = [each for each in stack.invocations(began) if each.group != "sweep" and not _is_read(each)]
            (parts_before, steps_before), host = stack.cpu_profile(), stack.cpu_s()["host"]
            await load.saturated(THREE, jobs, AT_ONCE)
            wait_for_log()
            (parts, steps), host = stack.cpu_profile(), stack.cpu_s()["host"] - host
    parts, steps = parts - parts_before, steps - steps_before
    whole = sum(parts.values()) or 1.0
    return {
        "groups": _by_group(idle, len(alone.sent)),
        "host_cpu_ms_per_job": {name: host * 1000 / jobs * seconds / whole for name, seconds in parts.most_common()},
        "host_steps": {name: seconds / whole for name, seconds in steps.most_common(_STEPS)},
    }


def _by_group(ran: list[Invocation], jobs: int) -> dict[str, Any]:
    """Sums by scale group. `lanes` is the sum of all 16 reply functions, of which a tenant's job uses one."""
    found: dict[str, list[Invocation]] = {}
    for each in ran:
        found.setdefault("lanes" if each.group.startswith("reply_p") else each.group, []).append(each)
    return {
        group: {
            "executions_per_job": sum(each.times for each in those) / jobs,
            # the wall time of a batch counts once for all its episodes
            "wall_ms_per_job": sum(each.ended - each.began for each in those) * 1000 / jobs,
            "wall_ms": percentiles([(each.ended - each.began) * 1000 / each.times for each in those]),
        }
        for group, those in sorted(found.items())
    }


def _is_read(each: Invocation) -> bool:
    """Returns `True` if the caller made the request, to wait until the job ends."""
    return each.trigger == "httpTrigger" and each.name != "orchestrate"


def _per_job(after: dict[str, int], before: dict[str, int], jobs: int) -> dict[str, float]:
    return {name: (count - before.get(name, 0)) / jobs for name, count in Counter(after).items()}
