"""`Orchestrations` over the durable client that the host binds to each invocation."""

from __future__ import annotations

from typing import Any

import aiohttp
from azure.durable_functions import DurableOrchestrationClient

from shared.core.jobs.verdict import Shown
from shared.errors import InstanceEnded, InstanceNotFound, Interrupted, OrchestrationUnavailable
from shared.ports.durable import Instance, InstanceState
from shared.time_limits import ENGINE_CALL_S, time_limit

#: errors of calls while the host does not respond
_FAULTS = (aiohttp.ClientError, OSError, TimeoutError, Interrupted)
_ENDED = frozenset({"Completed", "Failed", "Canceled", "Terminated"})


class DurableOrchestrations:
    """Implementation of `shared.ports.durable.Orchestrations`. `function` is the orchestrator's name."""

    def __init__(self, client: DurableOrchestrationClient, function: str) -> None:
        self._client = client
        self._function = function

    async def start(self, instance_id: str, plan: dict[str, Any]) -> None:
        for is_last in (False, True):
            try:
                async with time_limit(ENGINE_CALL_S):
                    await self._client.start_new(self._function, instance_id, plan)
                return
            except Interrupted as error:
                raise OrchestrationUnavailable("the durable client does not respond in time") from error
            except Exception as error:
                # the SDK raises a bare Exception with the server's text, here for status 409
                if "already exists" in str(error):
                    return
                # after a lost connection the SDK closes its session, which also ends calls of others (`http_utils`)
                if is_last:
                    what = type(error).__name__ if isinstance(error, _FAULTS) else error
                    raise OrchestrationUnavailable(f"the orchestration could not be started: {what}") from error

    async def look_up(self, instance_id: str) -> Instance:
        try:
            async with time_limit(ENGINE_CALL_S):
                status = await self._client.get_status(instance_id)
        except Exception as error:
            raise OrchestrationUnavailable(f"a call to the durable client failed: {type(error).__name__}") from error
        if not status or status.runtime_status is None:
            return Instance(InstanceState.NOT_FOUND)
        ended = status.runtime_status.name in _ENDED
        return Instance(InstanceState.ENDED if ended else InstanceState.ALIVE, Shown.of(status.custom_status))

    async def terminate(self, instance_id: str, reason: str) -> None:
        try:
            async with time_limit(ENGINE_CALL_S):
                await self._client.terminate(instance_id, reason)
        except _FAULTS as error:
            raise OrchestrationUnavailable(f"the durable client does not respond: {type(error).__name__}") from error
        except Exception as error:
            # a bare Exception: only the text distinguishes 404 from 410
            if not any(known in str(error) for known in ("No instance with ID", "is gone")):
                raise OrchestrationUnavailable(f"the orchestration could not be terminated: {error}") from error

    async def purge(self, instance_id: str) -> bool:
        # for a live instance, the extension answers 412 since January 2026 (its pull request 3311), and the SDK raises
        # a bare Exception. An older extension deletes the instance, and a termination in progress then ends the next
        # one with its id (durabletask issue 1398)
        found = (await self.look_up(instance_id)).state
        if found is not InstanceState.ENDED:
            return found is InstanceState.NOT_FOUND
        try:
            async with time_limit(ENGINE_CALL_S):
                await self._client.purge_instance_history(instance_id)
        except Exception as error:
            raise OrchestrationUnavailable(f"the history was not purged: {error}") from error
        return True

    async def raise_event(self, instance_id: str, name: str, data: dict[str, Any]) -> None:
        try:
            async with time_limit(ENGINE_CALL_S):
                await self._client.raise_event(instance_id, name, data)
        except _FAULTS as error:
            raise OrchestrationUnavailable(f"the durable client does not respond: {type(error).__name__}") from error
        except Exception as error:
            # a bare Exception: only the text distinguishes 404 from 410
            text = str(error)
            if "No instance with ID" in text:
                raise InstanceNotFound(instance_id) from error
            if "is gone" in text:
                raise InstanceEnded(instance_id) from error
            raise OrchestrationUnavailable(f"the event could not be raised: {text}") from error
