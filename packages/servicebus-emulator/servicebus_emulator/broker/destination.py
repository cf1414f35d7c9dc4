"""Message ids seen within a window."""

from __future__ import annotations

from collections import deque


class DuplicateHistory:
    """Remembers each id for `window_ms` from its first sight; a repeat does not prolong it."""

    def __init__(self, window_ms: int) -> None:
        self.window_ms = window_ms
        self._until: dict[str, int] = {}
        self._order: deque[tuple[int, str]] = deque()

    def knows(self, message_id: str, now_ms: int) -> bool:
        """The id was seen within the window."""
        self.forget(now_ms)
        return message_id in self._until

    def remember(self, message_id: str, now_ms: int) -> int:
        """Takes in an id not known; when it will be forgotten."""
        until = now_ms + self.window_ms
        self.restore(message_id, until)
        return until

    def restore(self, message_id: str, until_ms: int) -> None:
        self._until[message_id] = until_ms
        self._order.append((until_ms, message_id))

    def forget(self, now_ms: int) -> None:
        while self._order and self._order[0][0] <= now_ms:
            _, message_id = self._order.popleft()
            del self._until[message_id]

    def __len__(self) -> int:
        return len(self._order)
