"""The extension's HTTP API without HTTP: a request's parts in, an `Answer` out.

Paths are those below `/runtime/webhooks/durabletask/`. The SDK's client and the management URLs use the same.
Source: HttpApiHandler of the Durable extension.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from .client import Client
from .clock import parse_stamp
from .entities import Entities
from .errors import (
    FunctionNotFoundError,
    InstanceExistsError,
    InstanceGoneError,
    InstanceNotFoundError,
    InvalidInstanceIdError,
    WrongStatusError,
)
from .events import Instance, Status
from .history_view import show_history

#: Seconds a client is asked to wait before it looks again.
_RETRY_AFTER_START_S = 10
_RETRY_AFTER_STATUS_S = 5


@dataclass(frozen=True, slots=True)
class Answer:
    """`body` is to be sent as JSON; `None` is an empty body."""

    status: int
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)


class BadRequestError(Exception):
    """the request does not say what it should; the message is for the caller"""


@dataclass(frozen=True, slots=True)
class Links:
    """The management URLs; `base` ends with a slash, `query` holds the task hub and, if there is one, the key."""

    base: str
    query: str

    def of(self, instance_id: str) -> dict[str, str]:
        one = f"{self.base}instances/{instance_id}"
        return {
            "id": instance_id,
            "statusQueryGetUri": f"{one}?{self.query}",
            "sendEventPostUri": f"{one}/raiseEvent/{{eventName}}?{self.query}",
            "terminatePostUri": f"{one}/terminate?reason={{text}}&{self.query}",
            "rewindPostUri": f"{one}/rewind?reason={{text}}&{self.query}",
            "purgeHistoryDeleteUri": f"{one}?{self.query}",
            "restartPostUri": f"{one}/restart?{self.query}",
            "suspendPostUri": f"{one}/suspend?reason={{text}}&{self.query}",
            "resumePostUri": f"{one}/resume?reason={{text}}&{self.query}",
        }

    def creation(self) -> dict[str, str]:
        start = f"{self.base}orchestrators/{{functionName}}[/{{instanceId}}]?{self.query}"
        return {
            "createNewInstancePostUri": start,
            "createAndWaitOnNewInstancePostUri": f"{start}&timeout={{timeoutInSeconds}}"
            "&pollingInterval={intervalInSeconds}",
        }


class WebApi:
    def __init__(self, client: Client, entities: Entities) -> None:
        self._client = client
        self._entities = entities

    def handle(
        self, method: str, parts: Sequence[str], query: Mapping[str, str], body: bytes, links: Links
    ) -> Answer | None:
        """`None`: the caller is to get no answer at all."""
        try:
            return self._route(method, parts, query, body, links)
        except InstanceNotFoundError:
            return Answer(404)
        except InstanceGoneError as error:
            return Answer(410, {"Message": str(error)})
        except (BadRequestError, InvalidInstanceIdError, ValueError) as error:
            return Answer(400, _exception(str(error)))
        except FunctionNotFoundError as error:
            return Answer(400, _exception(str(error)))
        except InstanceExistsError as error:
            return Answer(409, {"Message": str(error)})
        except WrongStatusError as error:
            return Answer(412, str(error))

    def _route(self, method: str, parts: Sequence[str], query: Mapping[str, str], body: bytes, links: Links) -> Answer:
        match method, *parts:
            case "POST", "orchestrators", name:
                return self._start(name, None, query, body, links)
            case "POST", "orchestrators", name, instance_id:
                return self._start(name, instance_id, query, body, links)
            case "GET", "instances":
                return self._list(query)
            case "DELETE", "instances":
                return self._purge_by(query)
            case "GET", "instances", instance_id:
                return self._status(instance_id, query, links)
            case "DELETE", "instances", instance_id:
                self._client.purge(instance_id)
                return Answer(200, {"instancesDeleted": 1})
            case "POST", "instances", instance_id, "raiseEvent", name:
                self._client.raise_event(instance_id, name, _json_text(body))
                return Answer(202)
            case "POST", "instances", instance_id, operation:
                return self._control(instance_id, operation, query)
            case "GET", "entities", name, key:
                state = self._entities.state(name, key)
                return Answer(404) if state is None else Answer(200, json.loads(state))
            case "POST", "entities", name, key:
                self._entities.signal(name, key, query.get("op", ""), _json_text(body))
                return Answer(202)
            case _:
                return Answer(404)

    def _start(self, name: str, instance_id: str | None, query: Mapping[str, str], body: bytes, links: Links) -> Answer:
        started = self._client.start(name, instance_id, _json_text(body), query.get("version"))
        urls = links.of(started)
        return Answer(
            202,
            urls,
            {"Location": urls["statusQueryGetUri"], "Retry-After": str(_RETRY_AFTER_START_S)},
        )

    def _control(self, instance_id: str, operation: str, query: Mapping[str, str]) -> Answer:
        reason = query.get("reason", "")
        match operation:
            case "terminate":
                self._client.terminate(instance_id, reason)
            case "suspend":
                self._client.suspend(instance_id, reason)
            case "resume":
                self._client.resume(instance_id, reason)
            case "rewind":
                self._client.rewind(instance_id, reason)
            case "restart":
                with_new_id = query.get("restartWithNewInstanceId", "true").lower() == "true"
                return Answer(202, self._client.restart(instance_id, with_new_id=with_new_id))
            case _:
                return Answer(404)
        return Answer(202)

    def _status(self, instance_id: str, query: Mapping[str, str], links: Links) -> Answer:
        instance = self._client.status(instance_id)
        shown = _show(instance, with_input=_flag(query, "showInput", default=True))
        if _flag(query, "showHistory"):
            events = self._client.history(instance)
            shown["historyEvents"] = show_history(events, with_output=_flag(query, "showHistoryOutput"))
        if not instance.status.is_terminal:
            location = links.of(instance_id)["statusQueryGetUri"]
            return Answer(202, shown, {"Location": location, "Retry-After": str(_RETRY_AFTER_STATUS_S)})
        failed = instance.status is Status.FAILED
        error = failed and _flag(query, "returnInternalServerErrorOnFailure")
        return Answer(500 if error else 200, shown)

    def _list(self, query: Mapping[str, str]) -> Answer:
        top = int(query.get("top", "0")) or -1
        token = query.get("continuationToken", "")
        found = self._client.find(
            created_from=_time(query, "createdTimeFrom"),
            created_to=_time(query, "createdTimeTo"),
            statuses=_statuses(query),
            prefix=query.get("instanceIdPrefix", ""),
            after=base64.urlsafe_b64decode(token).decode() if token else "",
            limit=top,
        )
        with_input = _flag(query, "showInput")
        headers = {}
        if found and len(found) == top:
            headers["x-ms-continuation-token"] = base64.urlsafe_b64encode(found[-1].instance_id.encode()).decode()
        return Answer(200, [_show(one, with_input=with_input) for one in found], headers)

    def _purge_by(self, query: Mapping[str, str]) -> Answer:
        created_from = _time(query, "createdTimeFrom")
        if created_from is None:
            raise BadRequestError("createdTimeFrom is required")
        deleted = self._client.purge_by(created_from, _time(query, "createdTimeTo"), _statuses(query))
        return Answer(200 if deleted else 404, {"instancesDeleted": deleted})


def _show(instance: Instance, *, with_input: bool) -> dict[str, Any]:
    return {
        "name": instance.name,
        "instanceId": instance.instance_id,
        "runtimeStatus": instance.status.value,
        "input": json.loads(instance.input) if with_input and instance.input is not None else None,
        "customStatus": json.loads(instance.custom_status) if instance.custom_status is not None else None,
        "output": json.loads(instance.output) if instance.output is not None else None,
        "createdTime": f"{instance.created_at:%Y-%m-%dT%H:%M:%SZ}",
        "lastUpdatedTime": f"{instance.updated_at:%Y-%m-%dT%H:%M:%SZ}",
    }


def _json_text(body: bytes) -> str | None:
    if not body.strip():
        return None
    try:
        text = body.decode()
        json.loads(text)
    except ValueError:
        raise BadRequestError("Only application/json request content is supported") from None
    return text


def _flag(query: Mapping[str, str], name: str, *, default: bool = False) -> bool:
    return query.get(name, str(default)).lower() == "true"


def _time(query: Mapping[str, str], name: str) -> datetime | None:
    text = query.get(name)
    return parse_stamp(text) if text else None


def _statuses(query: Mapping[str, str]) -> list[Status]:
    known = {status.value.lower(): status for status in Status}
    names = [name.strip().lower() for name in query.get("runtimeStatus", "").split(",") if name.strip()]
    wanted = [known[name] for name in names if name in known]
    # Canceled and ContinuedAsNew exist on Azure and never here: asked for alone they match nothing.
    if names and not wanted:
        raise BadRequestError(f"unknown runtimeStatus; known: {', '.join(status.value for status in Status)}")
    return wanted


def _exception(message: str) -> dict[str, str]:
    return {"Message": "The request could not be processed.", "ExceptionMessage": message}
