"""The versions of orchestrations that this worker runs: `versionMatchStrategy` of host.json."""

from __future__ import annotations

import re
from dataclasses import dataclass

STRATEGIES = ("None", "Strict", "CurrentOrOlder")

#: System.Version of .NET: two to four numbers
_SYSTEM_VERSION = re.compile(r"\d+(\.\d+){1,3}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Versions:
    """The versions that this worker runs. `current` is `defaultVersion`. An instance of a version that `runs` refuses
    waits, or fails if `fail` is set.
    """

    current: str | None = None
    strategy: str = "None"
    fail: bool = False

    def runs(self, version: str | None) -> bool:
        """Returns True if this worker runs instances of `version`."""
        if self.strategy == "None":
            return True
        if self.strategy == "Strict":
            return (version or "") == (self.current or "")
        return _is_older_or_same((version or "").strip(), (self.current or "").strip())

    def refusal(self, version: str | None) -> str:
        """Returns the message for an instance that this worker does not run."""
        requested, current = version or "none", self.current or "none"
        return (
            f"The version {requested!r} of the orchestration does not match the worker's {current!r} "
            f"(versionMatchStrategy {self.strategy})."
        )


def _is_older_or_same(version: str, current: str) -> bool:
    """Returns True if a version is older or the same, by CompareVersions in TaskOrchestrationVersioningUtils.cs of
    DurableTask.Core.

    An empty version is the oldest. Versions that System.Version reads are compared by their numbers, others as texts.
    """
    if not version or not current:
        return not version
    if _SYSTEM_VERSION.fullmatch(version) and _SYSTEM_VERSION.fullmatch(current):
        return [int(part) for part in version.split(".")] <= [int(part) for part in current.split(".")]
    return version.upper() <= current.upper()
