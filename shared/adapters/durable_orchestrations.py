"""`Orchestrations` over the durable client that a binding hands in."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import aiohttp
from azure.durable_functions import DurableOrchestrationClient, OrchestrationRuntimeStatus

from shared.errors import InstanceEnded, InstanceNotFound, OrchestrationUnavailable
from shared.ports import InstanceState

#: the server wants a beginning
_BEFORE_LUCIUS = datetime(2020, 1, 1, tzinfo=UTC)

_ENDED = frozenset({"Completed", "Failed", "Canceled", "Terminated"})


class DurableOrchestrations:
    """See `shared.ports.Orchestrations`. `function` is the orchestrator's name."""

    def __init__(self, client: DurableOrchestrationClient, function: str) -> None:
        self._client = client
        self._function = function

    async def start(self, instance_id: str, plan: dict[str, Any]) -> None:
        try:
            await self._client.start_new(self._function, instance_id, plan)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise OrchestrationUnavailable(f"the durable client does not answer: {type(error).__name__}") from error
        except Exception as error:
            # the SDK raises a bare Exception with the server's text, here of a 409
            if "already exists" in str(error):
                return
            raise OrchestrationUnavailable(f"the orchestration could not be started: {error}") from error

    async def state(self, instance_id: str) -> InstanceState:
        try:
            status = await self._client.get_status(instance_id)
        except Exception as error:
            raise OrchestrationUnavailable(f"the durable client does not answer: {type(error).__name__}") from error
        if not status or status.runtime_status is None:
            return InstanceState.NOT_FOUND
        return InstanceState.ENDED if status.runtime_status.name in _ENDED else InstanceState.ALIVE

    async def purge_completed(self, before: datetime) -> int:
        try:
            purged = await self._client.purge_instance_history_by(
                created_time_from=_BEFORE_LUCIUS,
                created_time_to=before,
                runtime_status=[OrchestrationRuntimeStatus.Completed],
            )
        except Exception as error:
            raise OrchestrationUnavailable(f"histories were not purged: {error}") from error
        return int(purged.instances_deleted)

    async def raise_event(self, instance_id: str, name: str, data: dict[str, Any]) -> None:
        try:
            await self._client.raise_event(instance_id, name, data)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise OrchestrationUnavailable(f"the durable client does not answer: {type(error).__name__}") from error
        except Exception as error:
            # a bare Exception: 404 and 410 differ by their text only
            text = str(error)
            if "No instance with ID" in text:
                raise InstanceNotFound(instance_id) from error
            if "is gone" in text:
                raise InstanceEnded(instance_id) from error
            raise OrchestrationUnavailable(f"the event could not be raised: {text}") from error
