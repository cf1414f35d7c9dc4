"""Which versions of orchestrations this worker runs: `versionMatchStrategy` of host.json."""

from __future__ import annotations

from dataclasses import dataclass

STRATEGIES = ("None", "Strict", "CurrentOrOlder")


@dataclass(frozen=True, slots=True)
class Versions:
    """`current` is `defaultVersion`. What does not match waits for another worker, or fails if `fail`."""

    current: str | None = None
    strategy: str = "None"
    fail: bool = False

    def runs(self, version: str | None) -> bool:
        if self.strategy == "None":
            return True
        if self.strategy == "Strict":
            return (version or "") == (self.current or "")
        return _parts(version) <= _parts(self.current)

    def refusal(self, version: str | None) -> str:
        requested, current = version or "none", self.current or "none"
        return (
            f"The version {requested!r} of the orchestration does not match the worker's {current!r} "
            f"(versionMatchStrategy {self.strategy})."
        )


def _parts(version: str | None) -> list[tuple[int, str]]:
    """`1.10.0` is newer than `1.9`; no version is the oldest; what is no number is compared as text."""
    if not version:
        return []
    return [(int(part), "") if part.isdigit() else (-1, part) for part in version.split(".")]
