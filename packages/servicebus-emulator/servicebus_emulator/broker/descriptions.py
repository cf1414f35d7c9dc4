"""Descriptions of entities: immutable values from the configuration or the management API.

Durations are whole milliseconds. None means "never" or "without end". Defaults are those of Azure for new entities. The
emulator does not delete idle entities.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from servicebus_emulator.broker.errors import InvalidRequest
from servicebus_emulator.broker.filters import Filter, TrueFilter
from servicebus_emulator.broker.sql import SqlAction

MINUTE_MS = 60_000
DEFAULT_RULE = "$Default"
ExtraProperties = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class RuleDescription:
    """A rule of a subscription, which selects messages and may change the copies."""

    name: str
    filter: Filter = field(default_factory=TrueFilter)
    #: changes the copy of the message; None leaves it unchanged
    action: SqlAction | None = None


@dataclass(frozen=True, slots=True)
class QueueDescription:
    """A queue, or the queue of a subscription."""

    #: name of a queue, or of a subscription without its topic
    name: str
    lock_duration_ms: int = MINUTE_MS
    max_delivery_count: int = 10
    default_time_to_live_ms: int | None = None
    dead_lettering_on_expiration: bool = False
    dead_lettering_on_filter_error: bool = True
    requires_session: bool = False
    requires_duplicate_detection: bool = False
    duplicate_window_ms: int = 10 * MINUTE_MS
    forward_to: str | None = None
    forward_dead_letters_to: str | None = None
    max_size_bytes: int = 1024 * 1024 * 1024
    #: `Active`, `Disabled`, `SendDisabled` or `ReceiveDisabled`.
    status: str = "Active"
    #: properties of the management API that are stored and returned without effect
    extra_properties: ExtraProperties = ()

    def __post_init__(self) -> None:
        _check_durations(
            LockDuration=self.lock_duration_ms, DuplicateDetectionHistoryTimeWindow=self.duplicate_window_ms
        )
        if self.max_delivery_count < 1:
            raise InvalidRequest("MaxDeliveryCount must be at least 1.")


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """A topic."""

    name: str
    default_time_to_live_ms: int | None = None
    requires_duplicate_detection: bool = False
    duplicate_window_ms: int = 10 * MINUTE_MS
    max_size_bytes: int = 1024 * 1024 * 1024
    status: str = "Active"
    extra_properties: ExtraProperties = ()

    def __post_init__(self) -> None:
        _check_durations(DuplicateDetectionHistoryTimeWindow=self.duplicate_window_ms)


def _check_durations(**durations: int | None) -> None:
    for name, ms in durations.items():
        if ms is None or ms <= 0:
            raise InvalidRequest(f"{name} must be longer than zero and shorter than the maximum duration.")


@dataclass(frozen=True, slots=True)
class SubscriptionDescription:
    """A subscription: the queue of the messages that its rules select. A subscription without rules receives no
    messages.
    """

    queue: QueueDescription
    rules: tuple[RuleDescription, ...] = (RuleDescription(DEFAULT_RULE),)

    def rules_by_name(self) -> list[RuleDescription]:
        """Returns the rules in the order in which Azure lists them."""
        return sorted(self.rules, key=lambda rule: rule.name.lower())
