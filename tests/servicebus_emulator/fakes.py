"""Fakes: a clock that a test advances, content that is plain text, and a consumer that records its messages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from servicebus_emulator.broker.broker import Broker
from servicebus_emulator.broker.message import Message


class StillClock:
    """A clock that moves by `advance` only."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = now_ms

    def now_ms(self) -> int:
        return self._now_ms

    def advance(self, ms: int) -> None:
        self._now_ms += ms


@dataclass(frozen=True)
class Text:
    """A `broker.message.Content` of plain text."""

    text: str
    message_id: Any = None
    session_id: str | None = None
    time_to_live_ms: int | None = None
    scheduled_at_ms: int | None = None
    properties: Mapping[str, Any] = field(default_factory=dict)
    system: Mapping[str, Any] = field(default_factory=dict)

    @property
    def size(self) -> int:
        return len(self.text)

    def system_properties(self) -> Mapping[str, Any]:
        return {"MessageId": self.message_id, "SessionId": self.session_id, **self.system}

    def application_properties(self) -> Mapping[str, Any]:
        return self.properties

    def with_changes(self, application: Mapping[str, Any], system: Mapping[str, Any] | None = None) -> Text:
        changed = {name: value for name, value in {**self.properties, **application}.items() if value is not None}
        return replace(self, properties=changed, system={**self.system, **(system or {})})

    def with_time_to_live(self, ms: int, from_ms: int) -> Text:
        return replace(self, time_to_live_ms=ms)

    def truncated(self) -> Text:
        return replace(self, text=self.text[: len(self.text) // 2])

    def encode(self) -> bytes:
        return self.text.encode()


@dataclass(eq=False)
class Receiver:
    """A consumer with credit that the test grants."""

    credit: int = 0
    settles_on_send: bool = False
    messages: list[Message] = field(default_factory=list)

    def deliver(self, message: Message) -> None:
        self.credit -= 1
        self.messages.append(message)

    @property
    def texts(self) -> list[str]:
        return [text_of(message) for message in self.messages]


def text_of(message: Message) -> str:
    assert isinstance(message.content, Text)
    return message.content.text


def advance(broker: Broker, clock: StillClock, ms: int) -> None:
    """Moves the clock forward; each timer on the way runs at its own time."""
    end = clock.now_ms() + ms
    while (due := broker.timers.next_due_ms()) is not None and due <= end:
        clock.advance(max(0, due - clock.now_ms()))
        broker.timers.run_due(clock.now_ms())
    clock.advance(end - clock.now_ms())
