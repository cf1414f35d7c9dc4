"""The `$cbs` node: tokens a client puts before it uses an entity (AMQP claims-based security, draft 1)."""

from __future__ import annotations

from emulator.bus.amqp.message import Request, simple_message
from emulator.bus.amqp.values import Int

ADDRESS = "$cbs"


class Claims:
    """The tokens of one connection. Without a key, any token is good."""

    def answer(self, request: Request) -> bytes:
        """Takes a token in; the reply's keys are hyphenated, unlike those of `$management`."""
        if request.application.get("operation") != "put-token":
            return self._reply(request, 400, "The operation is put-token.")
        return self._reply(request, 202, "Accepted")

    def _reply(self, request: Request, status: int, description: str) -> bytes:
        return simple_message(
            None,
            application_properties={"status-code": Int(status), "status-description": description},
            correlation_id=request.message_id,
        )
