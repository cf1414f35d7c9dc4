"""The versions of orchestrations that this worker runs: `versionMatchStrategy` of host.json."""

from __future__ import annotations

from dataclasses import dataclass

STRATEGIES = ("None", "Strict", "CurrentOrOlder")


@dataclass(frozen=True, slots=True)
class Versions:
    """`current` is `defaultVersion`. An instance of another version waits, or fails if `fail` is set."""

    current: str | None = None
    strategy: str = "None"
    fail: bool = False

    def runs(self, version: str | None) -> bool:
        """Whether this worker runs instances of `version`."""
        if self.strategy == "None":
            return True
        if self.strategy == "Strict":
            return (version or "") == (self.current or "")
        return _parts(version) <= _parts(self.current)

    def refusal(self, version: str | None) -> str:
        """The message for an instance that this worker does not run."""
        requested, current = version or "none", self.current or "none"
        return (
            f"The version {requested!r} of the orchestration does not match the worker's {current!r} "
            f"(versionMatchStrategy {self.strategy})."
        )


def _parts(version: str | None) -> list[tuple[int, str]]:
    """The sort key of a version: `1.10.0` is newer than `1.9`, no version is the oldest, words compare as text."""
    if not version:
        return []
    return [(int(part), "") if part.isdigit() else (-1, part) for part in version.split(".")]
