"""The `$cbs` node, to which a client sends tokens before it uses an entity (AMQP claims-based security, draft 1)."""

from __future__ import annotations

from servicebus_emulator.amqp.message import Request, simple_message
from servicebus_emulator.amqp.values import Int
from servicebus_emulator.broker.errors import Unauthorized
from servicebus_emulator.clock import Clock
from servicebus_emulator.sas import Grant, SasKey, check_plain, check_token, resource_path

ADDRESS = "$cbs"


class CbsTokens:
    """The tokens of one connection and the entities that they allow. Without a key, every entity is allowed."""

    def __init__(self, key: SasKey | None, clock: Clock) -> None:
        self._key = key
        self._clock = clock
        self._grants: list[Grant] = []
        self._trusted = key is None

    def authenticate(self, mechanism: str, response: bytes) -> bool:
        """Returns False for PLAIN with a wrong key, else True.

        PLAIN has the key itself. After any other mechanism the client needs tokens, if the emulator has a key.
        """
        if mechanism == "PLAIN" and self._key is not None:
            self._trusted = check_plain(response, self._key)
            return self._trusted
        return True

    def handle(self, request: Request) -> bytes:
        """Checks a token and stores it. The keys of the reply are hyphenated, unlike those of `$management`."""
        if request.application.get("operation") != "put-token":
            return self._reply(request, 400, "The operation must be put-token.")
        if self._key is not None:
            try:
                self._put(request, self._key)
            except Unauthorized as error:
                return self._reply(request, 401, str(error))
        return self._reply(request, 202, "Accepted")

    def _put(self, request: Request, key: SasKey) -> None:
        # The Python SDK sends the type `jwt` with a SAS token too: the prefix of the token decides.
        grant = check_token(str(request.body), key, self._clock.now_ms())
        name = resource_path(str(request.application.get("name", "")))
        if not grant.covers(name):
            raise Unauthorized("InvalidToken: the token's resource does not cover the name in the request.")
        self._grants.append(grant)

    def allows(self, path: str) -> bool:
        """Returns True if the client can use the entity now. A token for an entity covers its `$management` too."""
        if self._trusted:
            return True
        now, key = self._clock.now_ms(), path.lower()
        self._grants = [grant for grant in self._grants if grant.until_ms > now]
        return any(grant.covers(key) for grant in self._grants)

    def next_expiry_ms(self) -> int | None:
        """Returns the time when the next token expires, in Unix milliseconds, or None without tokens."""
        return min((grant.until_ms for grant in self._grants), default=None)

    def _reply(self, request: Request, status: int, description: str) -> bytes:
        return simple_message(
            None,
            application_properties={"status-code": Int(status), "status-description": description},
            correlation_id=request.message_id,
        )
