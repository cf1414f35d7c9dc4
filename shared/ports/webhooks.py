"""The outgoing side of webhooks: the HTTP client and the queue `lucius-webhooks`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Protocol

from shared.core.records.strict_json import parse_json
from shared.core.webhooks.webhooks import Answer

#: kinds of messages: try of one delivery, probe of a waiting webhook, flow of the waiting deliveries of an enabled
#: webhook, past events that a new webhook requested
TRY, PROBE, FLOW, CATCH_UP = KINDS = "try", "probe", "flow", "catch_up"


class WebhookSender(Protocol):
    """The sender of requests to the allowed URLs that callers named (R86)."""

    def check(self, url: str, *, tenant: str) -> None:
        """Checks the URL without resolving its host. `tenant` is the owner of the URL. Raises HookUrlRefused."""

    async def post(self, url: str, headers: Mapping[str, str], body: bytes, *, tenant: str = "") -> Answer:
        """Sends one request of at most 10 s, without redirects. A failure is in the result. Raises nothing.

        `tenant` is the owner of the URL. The URL can use the hosts that are listed for the tenant. A name that never
        resolves delays no other tenant.
        """


@dataclass(frozen=True, kw_only=True)
class DeliveryCall:
    """A message of the queue. The message is a try of one delivery, a probe of a webhook, or a call to continue with
    waiting deliveries or past events.
    """

    tenant: str
    hook_id: str
    #: number of the delivery's event; with `flow`: of the event to continue after
    number: int = 0
    name: str = ""
    #: `tries` of the delivery or `probe` of the webhook at the time of sending
    tries: int = 0
    kind: str = TRY


def encode_call(call: DeliveryCall) -> bytes:
    """Encodes a call as the body of its message."""
    return json.dumps(vars(call), ensure_ascii=False, separators=(",", ":")).encode()


def decode_call(body: bytes) -> DeliveryCall | None:
    """Decodes a call. Returns None if the message is not a call or is of a later release."""
    try:
        values = parse_json(body)
    except ValueError:
        return None
    if not isinstance(values, dict):
        return None
    texts = [values.get(name) for name in ("tenant", "hook_id", "name", "kind")]
    numbers = [values.get(name) for name in ("number", "tries")]
    if not all(isinstance(each, str) for each in texts) or values["kind"] not in KINDS:
        return None
    if not all(isinstance(each, int) and not isinstance(each, bool) and each >= 0 for each in numbers):
        return None
    return DeliveryCall(**{each.name: values[each.name] for each in fields(DeliveryCall)})


class DeliveryQueue(Protocol):
    """The queue `lucius-webhooks`."""

    async def send(self, calls: Sequence[DeliveryCall], *, at: datetime | None = None) -> None:
        """Sends calls now or at the given time. Raises BusUnavailable."""
