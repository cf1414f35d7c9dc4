"""Events of a job from its stream of server-sent events (R82 of docs/contributing/rules.md; no I/O).

Each response of the API has a limited duration (docs/reference/events.md), and has the next position. After a cut
connection or a restart of the API, the client repeats the request from the same position.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from pydantic import ValidationError

from lucius_client import calls
from lucius_client.errors import NotLucius
from lucius_client.exchange import Flow, Pause, Request, Response
from lucius_client.models import Event
from lucius_client.retry import Retries, send
from lucius_client.series import LONG_POLL_S, PAGE, Series

EVENT_STREAM = "text/event-stream"


class JobEvents(Series[Event]):
    """The events of a job after `after` (`earliest`, `latest` or an id of its stream), until the job has ended.

    `next` returns the events of one response, each once and in order. The API delays a response without events by at
    most `LONG_POLL_S` seconds. `next` then returns no events. Raises NotLucius if the response is not a stream.
    """

    def __init__(self, job_id: str, retries: Retries, *, after: str = "earliest") -> None:
        self._path = calls.events_path(job_id)
        self._after = after
        self._retries = retries
        self._pause_s = 0.0
        self.more = True

    def next(self) -> Flow[list[Event]]:
        if self._pause_s:
            yield Pause(self._pause_s)
        request = Request(
            "GET",
            self._path,
            query={"after": self._after, "limit": str(PAGE)},
            headers={"Accept": EVENT_STREAM},
            long_poll_s=LONG_POLL_S,
        )
        response = yield from send(request, self._retries)
        if response.status == 204:
            self.more = False
            return []
        return self._taken(response)

    def _taken(self, response: Response) -> list[Event]:
        if not (response.header("Content-Type") or "").startswith(EVENT_STREAM):
            raise NotLucius("the response is not a stream of events")
        found: list[Event] = []
        try:
            for fields in _messages(response.body.decode("utf-8")):
                self._after = fields.get("id", self._after)
                if "retry" in fields:
                    self._pause_s = int(fields["retry"]) / 1000
                if "data" in fields:
                    found.append(Event.model_validate(json.loads(fields["data"])))
        except (ValueError, ValidationError) as error:
            raise NotLucius(f"the response is not a stream of a job's events: {error}") from error
        return found


def _messages(text: str) -> Iterator[dict[str, str]]:
    """Yields the fields of each message that ends with an empty line (WHATWG HTML 9.2.6)."""
    fields: dict[str, str] = {}
    # text after the last line feed is not a complete line
    for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n")[:-1]:
        if not line:
            yield fields
            fields = {}
            continue
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        fields[name] = f"{fields[name]}\n{value}" if name == "data" and name in fields else value
