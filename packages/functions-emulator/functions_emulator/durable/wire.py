"""The JSON of azure-functions-durable 1.7. Encodes histories for orchestrators, and decodes their actions.

Other modules of the engine use the SDK's field names only for HTTP requests and for batches of entity operations.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from functions_emulator.durable.actions import (
    Action,
    CallActivity,
    CallEntity,
    CallHttp,
    CallSubOrchestration,
    ContinueAsNew,
    CreateTimer,
    Reply,
    Retry,
    SignalEntity,
    WaitForEvent,
    WhenAll,
    WhenAny,
)
from functions_emulator.durable.clock import parse_stamp, parse_time_span
from functions_emulator.durable.events import Event, Instance, Kind
from functions_emulator.durable.http_polls import DEFAULT_POLL_INTERVAL

#: separates the message of an orchestrator's exception and its state
OUT_OF_PROC_MARKER = "\n\n$OutOfProcData$:"

#: timers longer than 6 days are split into legs of 3 days, as on the Azure Storage provider
_MAX_SHORT_TIMER = "6.00:00:00"
_LONG_TIMER_LEG = "3.00:00:00"


class WireError(ValueError):
    """The orchestrator's reply does not have the form of the SDK."""


def encode_context(
    instance: Instance, history: Sequence[Event], new_from: int, poll_interval: timedelta = DEFAULT_POLL_INTERVAL
) -> str:
    """Returns the trigger input of one episode as JSON text. Events from index `new_from` on have not been played
    before.
    """
    events = ",".join(
        [*map(_encode_played, history[:new_from]), *(_encode_event(event, False) for event in history[new_from:])]
    )
    head = json.dumps(
        {
            "instanceId": instance.instance_id,
            "isReplaying": new_from > 0,
            "parentInstanceId": instance.parent.instance_id if instance.parent else None,
            "input": _input_text(instance.input),
            "upperSchemaVersion": 1,
            "upperSchemaVersionNew": 3,
            "maximumShortTimerDuration": _MAX_SHORT_TIMER,
            "longRunningTimerIntervalDuration": _LONG_TIMER_LEG,
            "defaultHttpAsyncRequestSleepTimeMillseconds": int(poll_interval.total_seconds() * 1000),
        }
    )
    return f'{head[:-1]}, "history": [{events}]}}'


def _input_text(stored: str | None) -> str | None:
    """Returns the input as the orchestrator takes it: the JSON text in the JSON string that the SDK's client posts.
    Plain JSON stays.
    """
    if stored is None:
        return None
    value = json.loads(stored)
    return value if isinstance(value, str) else stored


def _encode_played(event: Event) -> str:
    if not event.memo:
        event.memo.append(_encode_event(event, True))
    return event.memo[0]


def _encode_event(event: Event, played: bool) -> str:
    return json.dumps(
        {
            "EventType": int(event.kind),
            "EventId": event.event_id,
            "IsPlayed": played,
            "Timestamp": event.at,
            **_wire_fields(event),
        }
    )


def _wire_fields(event: Event) -> Mapping[str, Any]:
    if event.kind is Kind.EXECUTION_STARTED:
        # The SDK requires `Version`; the input is not part of the history.
        return {"Name": event.data.get("Name"), "Version": event.data.get("Version")}
    if event.kind is Kind.ORCHESTRATOR_STARTED:
        return {}
    return event.data


def decode_reply(text: str) -> Reply:
    """Returns the reply in the state that an orchestrator function returned. Raises `WireError` for invalid text."""
    try:
        state = json.loads(text)
        return _decode_state(state)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise WireError(f"not an orchestrator state: {error!r} in {str(text)[:200]!r}") from None


def decode_error(message: str) -> Reply:
    """Returns the reply in the message of the exception that an orchestrator function raised.

    If the code could not start, the exception has no state. The reply then has an error and no actions.
    """
    error, marker, state_text = message.partition(OUT_OF_PROC_MARKER)
    if not marker:
        return Reply(done=False, actions=(), error=message)
    state = _decode_state(json.loads(state_text))
    return Reply(
        done=state.done,
        actions=state.actions,
        output=state.output,
        error=state.error or error,
        custom_status=state.custom_status,
    )


def _decode_state(state: Mapping[str, Any]) -> Reply:
    actions = state["actions"]
    listed = [action for batch in actions for action in batch]
    return Reply(
        done=bool(state["isDone"]),
        actions=tuple(_decode_action(action) for action in listed),
        output=json.dumps(state["output"]) if "output" in state else None,
        error=state.get("error"),
        custom_status=json.dumps(state["customStatus"]) if "customStatus" in state else None,
    )


def _decode_action(raw: Mapping[str, Any]) -> Action:
    decode = _DECODERS.get(raw["actionType"])
    if decode is None:
        raise WireError(f"unknown action type {raw['actionType']}")
    return decode(raw)


def _retry(raw: Mapping[str, Any]) -> Retry:
    options = raw["retryOptions"]
    return Retry(
        interval=timedelta(milliseconds=options["firstRetryIntervalInMilliseconds"]),
        max_attempts=int(options["maxNumberOfAttempts"]),
    )


def _sub_orchestration(raw: Mapping[str, Any], retry: Retry | None) -> CallSubOrchestration:
    return CallSubOrchestration(raw["functionName"], raw.get("input"), raw.get("instanceId"), raw.get("version"), retry)


def _http(request: Mapping[str, Any]) -> CallHttp:
    polls = request.get("asynchronousPatternEnabled") is True  # missing means false, as in the extension
    options = {name.lower(): value for name, value in (request.get("retryOptions") or {}).items()}
    if not options:
        return CallHttp(request, polls)
    retry = Retry(
        interval=parse_time_span(options["firstretryinterval"]),
        max_attempts=int(options["maxnumberofattempts"]),
        backoff=float(options.get("backoffcoefficient", 1.0)),
        longest=parse_time_span(options.get("maxretryinterval", "6.00:00:00")),
    )
    return CallHttp(request, polls, retry)


def _children(raw: Mapping[str, Any]) -> tuple[Action, ...]:
    return tuple(_decode_action(child) for child in raw["compoundActions"])


_DECODERS: Mapping[int, Callable[[Mapping[str, Any]], Action]] = {
    0: lambda raw: CallActivity(raw["functionName"], raw.get("input")),
    1: lambda raw: CallActivity(raw["functionName"], raw.get("input"), _retry(raw)),
    2: lambda raw: _sub_orchestration(raw, None),
    3: lambda raw: _sub_orchestration(raw, _retry(raw)),
    4: lambda raw: ContinueAsNew(raw.get("input")),
    5: lambda raw: CreateTimer(parse_stamp(raw["fireAt"]), bool(raw.get("isCanceled"))),
    6: lambda raw: WaitForEvent(raw["externalEventName"]),
    7: lambda raw: CallEntity(raw["instanceId"], raw["operation"], raw.get("input")),
    8: lambda raw: _http(raw["httpRequest"]),
    9: lambda raw: SignalEntity(raw["instanceId"], raw["operation"], raw.get("input")),
    11: lambda raw: WhenAny(_children(raw)),
    12: lambda raw: WhenAll(_children(raw)),
}
