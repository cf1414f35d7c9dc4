"""Runs the checks and reports their results as a table, as JSON or as JUnit XML."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from xml.etree import ElementTree

from lucius_service.contract import checks
from lucius_service.contract.bench import Bench, Options
from lucius_service.contract.checks import Check
from lucius_service.contract.expectations import Skipped, Wrong

#: version of the messages on the bus; docs/asyncapi.json shows its first number
CONTRACT_VERSION = "1.0.0"


@dataclass(frozen=True)
class Outcome:
    """The result of one check, with its duration and the reason for a failure or a skip."""

    check: str
    #: `passed`, `failed` or `skipped`
    outcome: str
    #: reason why it failed or was skipped; "": it passed
    reason: str
    seconds: float


@dataclass(frozen=True)
class Report:
    """The results of all checks, with the versions of the service, the contract and the SDK."""

    #: name and version of the service, as its operator gives them
    service: str
    step_type: str
    contract_version: str
    #: version of lucius-service
    kit_version: str
    #: `sha256:{hex}` of the source of the checks, so that two reports can be compared
    kit_digest: str
    checks: list[Outcome]

    @property
    def passed(self) -> bool:
        return not any(each.outcome == "failed" for each in self.checks)

    def table(self) -> str:
        """Returns the report as a table."""
        width = max(len(each.check) for each in self.checks)
        lines = [
            f"{each.check:<{width}}  {each.outcome:<7}  {each.seconds:6.1f} s  {each.reason}".rstrip()
            for each in self.checks
        ]
        counts = {name: sum(each.outcome == name for each in self.checks) for name in ("passed", "failed", "skipped")}
        head = f"{self.service} ({self.step_type}), contract {self.contract_version}"
        kit = f"lucius-service {self.kit_version}, checks {self.kit_digest[:19]}"
        return "\n".join((f"{head}, by {kit}", *lines, ", ".join(f"{count} {name}" for name, count in counts.items())))

    def json(self) -> str:
        return json.dumps(asdict(self), indent=1)

    def junit(self) -> str:
        """Returns the report as JUnit XML."""
        suite = ElementTree.Element(
            "testsuite",
            name=f"{self.service} ({self.step_type})",
            tests=str(len(self.checks)),
            failures=str(sum(each.outcome == "failed" for each in self.checks)),
            skipped=str(sum(each.outcome == "skipped" for each in self.checks)),
        )
        properties = ElementTree.SubElement(suite, "properties")
        for name in ("contract_version", "kit_version", "kit_digest"):
            ElementTree.SubElement(properties, "property", name=name, value=getattr(self, name))
        for each in self.checks:
            case = ElementTree.SubElement(suite, "testcase", name=each.check, time=f"{each.seconds:.3f}")
            if each.outcome != "passed":
                ElementTree.SubElement(case, "failure" if each.outcome == "failed" else "skipped", message=each.reason)
        return ElementTree.tostring(suite, "unicode")


async def verify(options: Options, service: str) -> Report:
    """Runs all checks. Raises NotRun if the bus, the blob account, `callback` or the service's command cannot be
    used.
    """
    async with Bench(options) as bench:
        await bench.look_around()
        bench.start()
        outcomes = list(await asyncio.gather(*(_made(each, bench) for each in checks.FAST)))
        no_slow = "needs --slow, a directive whose work takes more than twice --cadence" if options.slow is None else ""
        no_command = "needs --command, the command that starts the service" if options.command is None else ""
        one_by_one = [
            *((each, no_slow) for each in checks.SLOW),
            *((each, "") for each in checks.LISTENING),
            *((each, no_command or (no_slow if each in checks.SLOW_STOPPED else "")) for each in checks.STOPPED),
            *((each, "") for each in checks.LAST),
        ]
        outcomes += [await _made(each, bench, skip) for each, skip in one_by_one]
    digest = kit_digest()
    return Report(service, options.step_type, CONTRACT_VERSION, version("lucius-service"), digest, outcomes)


async def _made(check: Check, bench: Bench, skip: str = "") -> Outcome:
    began = time.monotonic()
    outcome, reason = "passed", ""
    try:
        if skip:
            raise Skipped(skip)
        await check(bench)
    except Wrong as wrong:
        outcome, reason = "failed", str(wrong)
    except Skipped as skipped:
        outcome, reason = "skipped", str(skipped)
    return Outcome(check.__name__, outcome, reason, round(time.monotonic() - began, 3))


def kit_digest() -> str:
    """Returns `sha256:{hex}` of the files of this package, in the order of their names."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return f"sha256:{digest.hexdigest()}"
