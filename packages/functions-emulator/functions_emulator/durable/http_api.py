"""The extension's HTTP API without sockets: from an `ApiRequest` to an `ApiResponse`.

Paths are those below `/runtime/webhooks/durabletask/`. The SDK's client and the management URLs use the same API.
Source: HttpApiHandler of the Durable extension.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from functions_emulator.durable.client import Client
from functions_emulator.durable.clock import parse_stamp
from functions_emulator.durable.entities import Entities
from functions_emulator.durable.errors import (
    FunctionNotFoundError,
    InstanceExistsError,
    InstanceGoneError,
    InstanceNotFoundError,
    InvalidInstanceIdError,
    WrongStatusError,
)
from functions_emulator.durable.events import Instance, Status
from functions_emulator.durable.history_view import show_history

#: `Retry-After` of the responses to a start and to a status request
_RETRY_AFTER_START_S = 10
_RETRY_AFTER_STATUS_S = 5

_CONTINUATION = "x-ms-continuation-token"

#: a status of Azure that no instance has here
_CANCELED = "Canceled"
_PURGEABLE = frozenset({_CANCELED, *(one.value for one in Status if one.is_terminal)})

#: the key in a path that represents the empty key
_EMPTY_KEY = "$"


@dataclass(frozen=True, slots=True)
class ApiResponse:
    """A response to send."""

    status: int
    #: body as JSON; `None` is an empty body
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    #: timeout and polling interval in seconds, if the response waits for the end of the instance in `body`
    wait_s: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """A request to the API. `parts` are the path segments below the API's path. Header names are in lower case."""

    method: str
    parts: Sequence[str]
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""

    @property
    def is_json(self) -> bool:
        return self.headers.get("content-type", "").split(";")[0].strip().lower() == "application/json"

    @property
    def wait_s(self) -> tuple[float, float] | None:
        """Returns `timeout` and `pollingInterval`, in seconds, of a start or restart that waits for the result. Returns
        `None` if one of them is missing. Raises `BadRequestError` if the interval is longer than the timeout, and
        `ValueError` if one of them is not a number.
        """
        timeout, interval = self.query.get("timeout"), self.query.get("pollingInterval")
        if not timeout or not interval:
            return None
        if float(interval) > float(timeout):
            raise BadRequestError(f"Total timeout {timeout} should be bigger than retry timeout {interval}")
        return float(timeout), float(interval)


class BadRequestError(Exception):
    """The request is invalid. The message is for the caller."""


@dataclass(frozen=True, slots=True)
class Links:
    """The management URLs. `base` ends with a slash. `query` has the task hub and, with access keys, the system key."""

    base: str
    query: str

    def of(self, instance_id: str) -> dict[str, str]:
        """Returns the management URLs of an instance, by their names in the API."""
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
        """Returns the templates of the URLs that start an instance."""
        start = f"{self.base}orchestrators/{{functionName}}[/{{instanceId}}]?{self.query}"
        return {
            "createNewInstancePostUri": start,
            "createAndWaitOnNewInstancePostUri": f"{start}&timeout={{timeoutInSeconds}}"
            "&pollingInterval={intervalInSeconds}",
        }


class HttpApi:
    """The operations of the extension's HTTP API on orchestrations and entities."""

    def __init__(self, client: Client, entities: Entities) -> None:
        self._client = client
        self._entities = entities

    def handle(self, request: ApiRequest, links: Links) -> ApiResponse | None:
        """Returns the response. `None` closes the connection without a response, as a fault requests."""
        try:
            return self._route(request, links)
        except InstanceNotFoundError:
            return ApiResponse(404)
        except InstanceGoneError as error:
            return ApiResponse(410, {"Message": str(error)})
        except (BadRequestError, InvalidInstanceIdError, ValueError) as error:
            return ApiResponse(400, _error_body(str(error)))
        except FunctionNotFoundError as error:
            return ApiResponse(400, _error_body(str(error)))
        except InstanceExistsError as error:
            return ApiResponse(409, {"Message": str(error)})
        except WrongStatusError as error:
            return ApiResponse(412, str(error))

    def outcome(self, instance_id: str, links: Links) -> ApiResponse | None:
        """Returns the response to a caller that waits for the result. The response has the output or the status.
        Returns `None` while the instance runs.
        """
        instance = self._client.status(instance_id)
        if not instance.status.is_terminal:
            return None
        if instance.status is Status.COMPLETED:
            return ApiResponse(200, None if instance.output is None else json.loads(instance.output))
        return self._status(instance_id, {}, links)

    def _route(self, request: ApiRequest, links: Links) -> ApiResponse:
        query = request.query
        match request.method, *request.parts:
            case "POST", "orchestrators", name:
                return self._start(name, None, request, links)
            case "POST", "orchestrators", name, instance_id:
                return self._start(name, instance_id, request, links)
            case "GET", "instances":
                return self._list(request)
            case "DELETE", "instances":
                return self._purge_by(query)
            case "GET", "instances", instance_id:
                return self._status(instance_id, query, links)
            case "DELETE", "instances", instance_id:
                self._client.purge(instance_id)
                return ApiResponse(200, {"instancesDeleted": 1})
            case "POST", "instances", instance_id, "raiseEvent", name:
                self._client.check_live(instance_id)
                if not request.is_json:
                    raise BadRequestError("Only application/json request content is supported")
                self._client.raise_event(instance_id, name, _json_text(request.body))
                return ApiResponse(202)
            case "POST", "instances", instance_id, operation:
                return self._control(instance_id, operation, request, links)
            case "GET", "entities", *name if len(name) < 2:
                return self._list_entities(name[0] if name else None, request)
            case "GET", "entities", name, key:
                state = self._entities.state(name, "" if key == _EMPTY_KEY else key)
                return ApiResponse(404) if state is None else ApiResponse(200, json.loads(state))
            case "POST" | "DELETE", "entities", name, key:
                text = _json_text(request.body) if request.is_json else _as_json(request.body)
                operation = "delete" if request.method == "DELETE" else query.get("op", "")
                self._entities.signal(name, key, operation, text)
                return ApiResponse(202)
            case _:
                return ApiResponse(404)

    def _start(self, name: str, instance_id: str | None, request: ApiRequest, links: Links) -> ApiResponse:
        wait_s = request.wait_s
        if instance_id is not None and "/" in instance_id:
            return ApiResponse(404)  # the extension decodes the path before it compares it with its routes
        started = self._client.start(name, instance_id, _json_text(request.body), request.query.get("version"))
        return self._started(started, wait_s, links)

    def _started(self, instance_id: str, wait_s: tuple[float, float] | None, links: Links) -> ApiResponse:
        urls = links.of(instance_id)
        headers = {"Location": urls["statusQueryGetUri"], "Retry-After": str(_RETRY_AFTER_START_S)}
        return ApiResponse(202, urls, headers, wait_s)

    def _control(self, instance_id: str, operation: str, request: ApiRequest, links: Links) -> ApiResponse:
        reason = request.query.get("reason", "")
        match operation:
            case "terminate":
                self._client.terminate(instance_id, request.query.get("reason"))
            case "suspend":
                self._client.suspend(instance_id, reason)
            case "resume":
                self._client.resume(instance_id, reason)
            case "rewind":
                if self._client.status(instance_id).status in (Status.COMPLETED, Status.TERMINATED):
                    return ApiResponse(410)
                self._client.rewind(instance_id, reason)
            case "restart":
                wait_s = request.wait_s
                with_new_id = request.query.get("restartWithNewInstanceId", "true").lower() == "true"
                try:
                    restarted = self._client.restart(instance_id, with_new_id=with_new_id)
                except InstanceNotFoundError:
                    raise BadRequestError("InstanceId does not match a valid orchestration instance.") from None
                return self._started(restarted, wait_s, links)
            case _:
                return ApiResponse(404)
        return ApiResponse(202)

    def _status(self, instance_id: str, query: Mapping[str, str], links: Links) -> ApiResponse:
        instance = self._client.status(instance_id)
        body = _status_body(instance, with_input=_flag(query, "showInput", default=True))
        if _flag(query, "showHistory"):
            events = self._client.history(instance)
            body["historyEvents"] = show_history(events, with_output=_flag(query, "showHistoryOutput"))
        if not instance.status.is_terminal:
            location = links.of(instance_id)["statusQueryGetUri"]
            return ApiResponse(202, body, {"Location": location, "Retry-After": str(_RETRY_AFTER_STATUS_S)})
        failed = instance.status is Status.FAILED
        error = failed and _flag(query, "returnInternalServerErrorOnFailure")
        return ApiResponse(500 if error else 200, body)

    def _list(self, request: ApiRequest) -> ApiResponse:
        query = request.query
        top = int(query.get("top", "0")) or -1
        instances = self._client.find(
            created_from=_time(query, "createdTimeFrom"),
            created_to=_time(query, "createdTimeTo"),
            statuses=_statuses(query),
            prefix=query.get("instanceIdPrefix", ""),
            after=_page_before(request),
            limit=top,
        )
        with_input = _flag(query, "showInput")
        headers = _next_page(instances[-1].instance_id if instances and len(instances) == top else None)
        return ApiResponse(200, [_status_body(one, with_input=with_input) for one in instances], headers)

    def _list_entities(self, name: str | None, request: ApiRequest) -> ApiResponse:
        query = request.query
        top = int(query.get("top", "0")) or -1
        entities = self._entities.find(
            name,
            used_from=_time(query, "lastOperationTimeFrom"),
            used_to=_time(query, "lastOperationTimeTo"),
            after=_page_before(request),
            limit=top,
        )
        items = [
            {
                "entityId": {"name": one.name, "key": one.key},
                "lastOperationTime": f"{one.updated_at:%Y-%m-%dT%H:%M:%SZ}",
                **({"state": json.loads(one.state)} if _flag(query, "fetchState") else {}),
            }
            for one in entities
        ]
        return ApiResponse(200, items, _next_page(entities[-1].id if entities and len(entities) == top else None))

    def _purge_by(self, query: Mapping[str, str]) -> ApiResponse:
        created_from = _time(query, "createdTimeFrom")
        if created_from is None:
            raise BadRequestError("Please provide value for 'createdTimeFrom' parameter.")
        deleted = self._client.purge_by(created_from, _time(query, "createdTimeTo"), _ended_statuses(query))
        return ApiResponse(200, {"instancesDeleted": deleted}) if deleted else ApiResponse(404)


def _status_body(instance: Instance, *, with_input: bool) -> dict[str, Any]:
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


def _as_json(body: bytes) -> str | None:
    return json.dumps(body.decode()) if body else None


def _page_before(request: ApiRequest) -> str:
    token = request.headers.get(_CONTINUATION, "")
    return base64.urlsafe_b64decode(token).decode() if token else ""


def _next_page(last: str | None) -> dict[str, str]:
    """Returns the header with the continuation token; the token is empty after the last page."""
    return {_CONTINUATION: base64.urlsafe_b64encode((last or "").encode()).decode()}


def _flag(query: Mapping[str, str], name: str, *, default: bool = False) -> bool:
    return query.get(name, str(default)).lower() == "true"


def _time(query: Mapping[str, str], name: str) -> datetime | None:
    text = query.get(name)
    return parse_stamp(text) if text else None


def _statuses(query: Mapping[str, str]) -> list[Status]:
    by_name = {status.value.lower(): status for status in Status}
    names = [name.strip().lower() for name in query.get("runtimeStatus", "").split(",") if name.strip()]
    statuses = [by_name[name] for name in names if name in by_name]
    # Canceled and ContinuedAsNew are statuses of Azure that no instance has here.
    if names and not statuses:
        raise BadRequestError(f"unknown runtimeStatus; known: {', '.join(status.value for status in Status)}")
    return statuses


def _ended_statuses(query: Mapping[str, str]) -> list[Status] | None:
    """Returns the statuses that a purge selects; `None` selects every status, also of live instances.

    Names of other statuses, and names in another case, are ignored. If no name remains, no filter applies. Sources:
    TryGetIEnumerableQueryParameterValue in HttpApiHandler.cs of the extension, and PurgeInstanceHistoryAsync with
    GetODataFilter in AzureTableTrackingStore.cs of DurableTask.AzureStorage.
    """
    names = {name.strip() for name in query.get("runtimeStatus", "").split(",")} & _PURGEABLE
    return [Status(name) for name in sorted(names - {_CANCELED})] if names else None


def _error_body(message: str) -> dict[str, str]:
    return {"Message": "The request could not be processed.", "ExceptionMessage": message}
