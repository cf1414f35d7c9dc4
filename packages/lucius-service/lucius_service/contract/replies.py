"""The replies of a service in a verification, in the order of the bus."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True)
class Reply:
    """A reply as received."""

    body: Json
    #: time of receipt, by `time.monotonic`
    at: float
    #: lane of the reply topic; None if it arrived over HTTP
    lane: int | None = None
    #: sequence number of the message on its topic
    number: int = 0


class Replies(list[Reply]):
    """All replies so far."""

    def take(self, body: bytes, lane: int | None = None, number: int = 0) -> None:
        """Records a reply. Replies of a lane keep the order of the bus, and a repeated delivery counts once.

        The SDK returns a message that arrives between two receives to the bus, so a later message can arrive first. A
        body that is not a JSON object is ignored.
        """
        with suppress(ValueError):
            value = json.loads(body)
            if not isinstance(value, dict):
                return
            place = len(self)
            for index in reversed(range(place if lane is not None else 0)):
                other = self[index]
                if other.lane == lane and other.number <= number:
                    if other.number == number:
                        return
                    break
                if other.lane == lane:
                    place = index
            self.insert(place, Reply(value, time.monotonic(), lane, number))
