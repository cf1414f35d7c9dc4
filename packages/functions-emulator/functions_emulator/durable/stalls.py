"""Finds orchestrations that hang on Azure, because the code and the extension disagree about one history.

There are four cases:

- The code waits for a function that the app does not have.
- The code has passed an await at which the extension still waits.
- The code has ended while a call or timer is still open.
- The code waits for an action that the extension counts as finished.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from functions_emulator.durable.actions import (
    Await,
    CallActivity,
    CallEntity,
    CallHttp,
    CallSubOrchestration,
    CreateTimer,
    Reply,
    WaitForEvent,
    WhenAll,
    WhenAny,
)


@dataclass(frozen=True, slots=True)
class Stall:
    """A stall. If `for_ever` is true, no open call or timer can wake the instance.

    Otherwise an open call, a timer or an event can wake the instance.
    """

    for_ever: bool
    reason: str


def describe_stall(
    reply: Reply,
    blocked: Await | None,
    latest: Await | None,
    position: int,
    open_tasks: Mapping[int, Await],
    waiters: Mapping[str, Sequence[Await]],
) -> Stall | None:
    """Describes the stall after an episode, or returns `None`.

    `blocked` is the action at which the extension waits, at index `position` of the reply. `latest` is the last action
    that the extension has reached. `open_tasks` are calls and timers by task id. `waiters` are waits by lower-case
    event name.
    """
    over = reply.done or reply.error is not None
    unknown = [] if over or latest is None else [leaf for leaf in _leaves(latest) if leaf.problem is not None]
    if unknown:
        what = " ".join(dict.fromkeys(str(leaf.problem) for leaf in unknown))
        return Stall(
            for_ever=not open_tasks and not any(waiters.values()),
            reason=f"the code waits for {', '.join(dict.fromkeys(map(_name, unknown)))}, which the extension does not "
            f"start: {what} The instance stays Running. Deploy the function or correct the call, then terminate the "
            "instance and start a new one. The host's log names functions that the host does not serve.",
        )
    if blocked is not None:
        if not over and position >= len(reply.actions) - 1:
            return None
        leaves = [leaf for leaf in _leaves(blocked) if not leaf.done]
        pending = [leaf for leaf in leaves if not isinstance(leaf.action, WaitForEvent)]
        what = ", ".join(dict.fromkeys(_name(leaf) for leaf in leaves))
        return Stall(
            for_ever=not pending,
            reason=f"the code has gone past await {position + 1} of {len(reply.actions)}, but the extension still "
            f"waits at this await for {what}. {_advice(blocked, leaves)}",
        )
    if over and open_tasks:
        what = ", ".join(dict.fromkeys(_name(node) for node in open_tasks.values()))
        verb = "raised" if reply.error is not None else "returned"
        return Stall(
            for_ever=False,
            reason=f"the code has {verb} while {what} is open. The instance stays Running until {what} ends. "
            "Cancel timers in `finally`, and await every task that was started.",
        )
    if not over and not open_tasks and not any(waiters.values()):
        return Stall(
            for_ever=True,
            reason="the code waits, but the extension has finished every task of the code. An event may "
            "have a name that differs in case only, or an abandoned wait received the event.",
        )
    return None


def _advice(blocked: Await, leaves: Sequence[Await]) -> str:
    events = [leaf for leaf in leaves if isinstance(leaf.action, WaitForEvent)]
    if isinstance(blocked.action, WaitForEvent) or (len(events) == len(leaves) and events):
        return "One event ended several waits for its name in the code. Give every wait a different name."
    if isinstance(blocked.action, WhenAny):
        return (
            "The winner of this task_any was scheduled by an earlier task_any, and the extension waits only for "
            "new tasks. Cancel the new timer when the reused task wins."
        )
    return "The code did not wait for all these tasks. Await every task that was started."


def _leaves(node: Await) -> list[Await]:
    if isinstance(node.action, WhenAny | WhenAll):
        return [leaf for child in node.children for leaf in _leaves(child)]
    return [node]


def _name(node: Await) -> str:
    match node.action:
        case CallActivity(name):
            return f"activity {name}"
        case CallSubOrchestration(name):
            return f"sub-orchestration {name}"
        case WaitForEvent(name):
            return f"event {name!r}"
        case CreateTimer(fire_at):
            return f"the timer of {fire_at:%Y-%m-%dT%H:%M:%SZ}"
        case CallEntity(entity, operation):
            return f"entity {entity} ({operation})"
        case CallHttp(request):
            return f"HTTP {request.get('method', '')} {request.get('uri', '')}"
        case other:
            return type(other).__name__
