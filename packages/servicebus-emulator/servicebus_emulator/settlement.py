"""Settles a message by the outcome of its receiver. The SDKs encode the four operations as follows.

| operation   | Python                       | JavaScript                         |
|-------------|------------------------------|------------------------------------|
| complete    | accepted                     | accepted                           |
| abandon     | modified, not undeliverable  | modified, delivery-failed omitted  |
| defer       | modified, undeliverable-here | modified, undeliverable-here       |
| dead-letter | rejected with an error       | rejected with an error             |

`released` returns the message without counting a delivery. The Python SDK sends `released` for prefetched messages.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from servicebus_emulator.amqp.performatives import (
    Accepted,
    Body,
    Error,
    Modified,
    Rejected,
    Released,
    TransactionalState,
)
from servicebus_emulator.broker.errors import BusError, InvalidRequest, NotImplementedHere
from servicebus_emulator.broker.queue import DESCRIPTION, REASON, MessageQueue

NO_TRANSACTIONS = "Transactions are not supported by the emulator: send and settle each message separately."


def settle(queue: MessageQueue, token: uuid.UUID, outcome: Any) -> Body:
    """Applies an outcome to the locked message. Returns the outcome to echo, which is the same outcome, or `rejected`
    if the operation failed.
    """
    try:
        match outcome:
            case Accepted():
                queue.complete(token)
                return Accepted()
            case Modified(_, undeliverable_here, annotations):
                change = queue.defer if undeliverable_here else queue.abandon
                change(token, _texts(annotations))
                return Modified(outcome.delivery_failed, undeliverable_here, annotations)
            case Rejected(error):
                _dead_letter(queue, token, error)
                return Rejected()  # an error in the echo would mean that it failed
            case Released():
                queue.release(token)
                return Released()
            case TransactionalState():
                raise NotImplementedHere(NO_TRANSACTIONS)
            case _:
                raise InvalidRequest("A delivery must be settled with accepted, modified, rejected or released.")
    except BusError as error:
        return Rejected(Error(error.condition, error.description))


def _dead_letter(queue: MessageQueue, token: uuid.UUID, error: Any) -> None:
    info = _texts(error.info if isinstance(error, Error) else None)
    reason, description = info.pop(REASON, None), info.pop(DESCRIPTION, None)
    if description is None and isinstance(error, Error):
        description = error.description
    queue.dead_letter(token, reason, description, info)


def _texts(entries: Mapping[Any, Any] | None) -> dict[str, Any]:
    """Returns the entries with text keys: Python sends symbols, JavaScript strings."""
    return {str(key): value for key, value in (entries or {}).items()}
