"""Maps the properties of the management API to the fields of descriptions.

Names are those of the QueueDescription, TopicDescription and SubscriptionDescription elements of the ATOM API.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from servicebus_emulator.broker.errors import InvalidRequest
from servicebus_emulator.durations import format_duration, parse_duration

MEGABYTE = 1024 * 1024
#: sizes of an entity that Azure offers (Azure CLI, `az servicebus queue create --max-size`)
STANDARD_SIZES_MB = (1024, 2048, 3072, 4096, 5120)
PREMIUM_SIZES_MB = (*STANDARD_SIZES_MB, 10240, 20480, 40960, 81920)
STATUSES = ("Active", "Disabled", "SendDisabled", "ReceiveDisabled")


@dataclass(frozen=True, slots=True)
class Property:
    """A property of an entity: its name in the API, the field of the description, and its type."""

    name: str
    field: str
    #: `duration`, `bool`, `int`, `megabytes`, `status` or `entity`.
    kind: str
    #: `True` if it cannot be changed after creation
    fixed: bool = False


_LOCK = Property("LockDuration", "lock_duration_ms", "duration")
_MAX_SIZE = Property("MaxSizeInMegabytes", "max_size_bytes", "megabytes")
_DUPLICATE_DETECTION = Property("RequiresDuplicateDetection", "requires_duplicate_detection", "bool", fixed=True)
_SESSION = Property("RequiresSession", "requires_session", "bool", fixed=True)
_TIME_TO_LIVE = Property("DefaultMessageTimeToLive", "default_time_to_live_ms", "duration")
_DEAD_LETTERS_EXPIRED = Property("DeadLetteringOnMessageExpiration", "dead_lettering_on_expiration", "bool")
_DEAD_LETTERS_FAILED = Property("DeadLetteringOnFilterEvaluationExceptions", "dead_lettering_on_filter_error", "bool")
_DUPLICATE_WINDOW = Property("DuplicateDetectionHistoryTimeWindow", "duplicate_window_ms", "duration")
_MAX_DELIVERIES = Property("MaxDeliveryCount", "max_delivery_count", "int")
_STATUS = Property("Status", "status", "status")
_FORWARD = Property("ForwardTo", "forward_to", "entity")
_FORWARD_DEAD_LETTERS = Property("ForwardDeadLetteredMessagesTo", "forward_dead_letters_to", "entity")

QUEUE = (
    *(
        _LOCK,
        _MAX_SIZE,
        _DUPLICATE_DETECTION,
        _SESSION,
        _TIME_TO_LIVE,
        _DEAD_LETTERS_EXPIRED,
        _DUPLICATE_WINDOW,
        _MAX_DELIVERIES,
        _STATUS,
    ),
    *(_FORWARD, _FORWARD_DEAD_LETTERS),
)
TOPIC = (_TIME_TO_LIVE, _MAX_SIZE, _DUPLICATE_DETECTION, _DUPLICATE_WINDOW, _STATUS)
SUBSCRIPTION = (
    *(
        _LOCK,
        _SESSION,
        _TIME_TO_LIVE,
        _DEAD_LETTERS_EXPIRED,
        _DEAD_LETTERS_FAILED,
        _MAX_DELIVERIES,
        _STATUS,
        _FORWARD,
        _FORWARD_DEAD_LETTERS,
    ),
)
#: properties that are stored and returned without effect, with Azure's defaults
EXTRA_PROPERTIES: Mapping[str, str | None] = {
    "EnableBatchedOperations": "true",
    "UserMetadata": None,
    "AutoDeleteOnIdle": "P10675199DT2H48M5.4775807S",
    "EnablePartitioning": "false",
    "EnableExpress": "false",
    "SupportOrdering": "true",
    "MaxMessageSizeInKilobytes": None,
}


def read(properties: tuple[Property, ...], texts: Mapping[str, str]) -> dict[str, Any]:
    """Returns fields of a description from the texts of a request. Raises InvalidRequest, which names an invalid
    property.
    """
    fields: dict[str, Any] = {}
    for item in properties:
        text = texts.get(item.name)
        if text is not None:
            try:
                fields[item.field] = _parse(item.kind, text.strip())
            except ValueError as error:
                raise InvalidRequest(f"{item.name}: {error}") from error
    fields["extra_properties"] = tuple((name, texts[name]) for name in EXTRA_PROPERTIES if name in texts)
    return fields


def whole_megabytes(size_bytes: int) -> int:
    """Returns a size in bytes, rounded down to whole megabytes."""
    return size_bytes // MEGABYTE * MEGABYTE


def write(properties: tuple[Property, ...], description: Any, endpoint: str | None = None) -> dict[str, str]:
    """Returns the properties of a description as texts. If `endpoint` is given, it precedes the names of other
    entities.
    """
    texts = {}
    for item in properties:
        value = getattr(description, item.field)
        if value is not None or item.kind == "duration":
            texts[item.name] = _format(item.kind, value)
            if item.kind == "entity" and endpoint is not None:
                texts[item.name] = f"{endpoint}/{value}"
    extra = {**EXTRA_PROPERTIES, **dict(description.extra_properties)}
    texts.update({name: text for name, text in extra.items() if text is not None})
    return texts


def _parse(kind: str, text: str) -> Any:
    match kind:
        case "duration":
            return parse_duration(text)
        case "bool":
            if text.lower() not in ("true", "false"):
                raise ValueError(f"'{text}' is neither true nor false")
            return text.lower() == "true"
        case "int":
            return int(text)
        case "megabytes":
            return int(text) * MEGABYTE
        case "status":
            if text not in STATUSES:
                raise ValueError(f"'{text}' is not one of {', '.join(STATUSES)}")
            return text
    # Clients send the target's whole address; only its path counts.
    name = text.split("://", 1)[-1].partition("/")[2] if "://" in text else text
    return name.strip("/") or None


def _format(kind: str, value: Any) -> str:
    match kind:
        case "duration":
            return format_duration(value)
        case "bool":
            return "true" if value else "false"
        case "megabytes":
            return str(value // MEGABYTE)
    return str(value)
