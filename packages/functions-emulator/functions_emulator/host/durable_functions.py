"""Connects the app to the engine: its orchestrators, activities and entities, and the durable client binding."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from azure.functions import _durable_functions
from azure.functions.durable_functions import ActivityTriggerConverter
from azure.functions.meta import Datum

from functions_emulator.durable.catalog import Catalog
from functions_emulator.durable.errors import FunctionNotFoundError
from functions_emulator.durable.failures import activity_failure, error_without_state
from functions_emulator.durable.http_api import Links
from functions_emulator.durable.runner import ActivityFailedError, OrchestratorCall, OrchestratorRaisedError
from functions_emulator.durable.wire import OUT_OF_PROC_MARKER
from functions_emulator.host.errors import FunctionFailedError
from functions_emulator.host.functions import Binding, Function
from functions_emulator.host.invocation import Invocation
from functions_emulator.host.invoker import Invoker
from functions_emulator.host.worker import Worker

_HISTORY_EVENT_MODULE = "azure.durable_functions.models.history.HistoryEvent"

_FIELD = {"orchestrationTrigger": "orchestration", "activityTrigger": "activity", "entityTrigger": "entityName"}


class DurableFunctions:
    """The durable functions of an app: the `Functions` of the runner."""

    def __init__(self, functions: tuple[Function, ...], worker: Worker, directory: str) -> None:
        self._worker = worker
        self._directory = directory
        self._functions: dict[str, dict[str, Function]] = {kind: {} for kind in _FIELD}
        for one in functions:
            if one.trigger.type in _FIELD:
                name = one.trigger.text(_FIELD[one.trigger.type]) or one.name
                self._functions[one.trigger.type][name.lower()] = one
        self._invoker: Invoker | None = None

    def connect(self, invoker: Invoker) -> None:
        """Sets the invoker of activities. Activities can have bindings, like any function."""
        self._invoker = invoker

    @property
    def catalog(self) -> Catalog:
        """Returns the names of the durable functions."""
        return Catalog(*map(self._names, ("orchestrationTrigger", "activityTrigger", "entityTrigger")))

    def _names(self, kind: str) -> list[str]:
        return sorted(one.trigger.text(_FIELD[kind]) or one.name for one in self._functions[kind].values())

    @property
    def any(self) -> bool:
        """Returns True if the app has durable functions."""
        return any(self._functions.values())

    async def run_orchestrators(self, calls: Sequence[OrchestratorCall]) -> Sequence[str | OrchestratorRaisedError]:
        orchestrators = self._functions["orchestrationTrigger"]
        runs, places = [], []
        results: list[str | OrchestratorRaisedError] = [""] * len(calls)
        for place, call in enumerate(calls):
            function = orchestrators.get(call.name.lower())
            if function is None:
                known = self._names("orchestrationTrigger")
                results[place] = OrchestratorRaisedError(FunctionNotFoundError("orchestrator", call.name, known))
            else:
                arguments = {function.trigger.name: _durable_functions.OrchestrationContext(call.context)}
                runs.append((function, arguments, Invocation(function.name, self._directory)))
                places.append(place)
        for place, result in zip(places, await self._worker.call_batch(runs), strict=True):
            failed = isinstance(result, FunctionFailedError)
            results[place] = _orchestrator_error(result) if failed else str(result)
        return results

    async def run_activity(self, name: str, instance_id: str, text: str | None) -> str:
        function = self._functions["activityTrigger"].get(name.lower())
        if function is None or self._invoker is None:
            raise ActivityFailedError(f"Activity function '{name}' failed: it no longer exists.")
        try:
            value = None
            if text is not None:
                value = ActivityTriggerConverter.decode(Datum(text, "string"), trigger_metadata={})
            result = await self._invoker.invoke(function, value, trigger_data={"instanceId": instance_id})
            return str(ActivityTriggerConverter.encode(result, expected_type=None).value)
        except FunctionFailedError as error:
            raise ActivityFailedError(*activity_failure(function.name, str(error), error.stack)) from None
        except ValueError as error:  # input or output is not JSON
            text = f"{type(error).__name__}: {error}"
            raise ActivityFailedError(*activity_failure(function.name, text, "")) from None

    async def run_entity(self, name: str, entity_id: str, batch: str) -> str:
        function = self._functions["entityTrigger"].get(name.lower())
        if function is None:
            raise ActivityFailedError(f"Entity function '{name}' no longer exists.")
        arguments = {function.trigger.name: _durable_functions.EntityContext(batch)}
        try:
            result = await self._worker.call(function, arguments, Invocation(function.name, self._directory))
        except FunctionFailedError as error:
            raise ActivityFailedError(str(error.cause)) from None
        return str(result)


def _orchestrator_error(error: FunctionFailedError) -> OrchestratorRaisedError:
    text = str(error.cause)
    return OrchestratorRaisedError(text if OUT_OF_PROC_MARKER in text else error_without_state(str(error), error.stack))


class DurableClientReader:
    """The `durableClient` input: JSON text with the URLs that the SDK's client uses."""

    def __init__(self, links: Links, hub: str, rpc_url: str) -> None:
        self._text = json.dumps(
            {
                "taskHubName": hub,
                "connectionName": "Storage",
                "creationUrls": links.creation(),
                "managementUrls": links.of("INSTANCEID"),
                "baseUrl": links.base.rstrip("/"),
                "requiredQueryStringParameters": links.query,
                "rpcBaseUrl": rpc_url,
            }
        )

    async def read(self, binding: Binding, trigger_data: Mapping[str, Any]) -> str:
        return self._text


def use_fast_timestamps() -> bool:
    """Makes the SDK parse timestamps by `datetime.fromisoformat`. Returns True if that is possible.

    The SDK parses every history timestamp by `dateutil`, which takes three quarters of the CPU time of an episode. The
    engine writes ISO 8601 texts with `Z` only, as Microsoft's host does, which `fromisoformat` reads forty times as
    fast. The values are those of `dateutil`, with its time zone: `tzlocal()` on a machine whose zone is called UTC, as
    on Azure, else `tzutc()`.
    """
    module = sys.modules.get(_HISTORY_EVENT_MODULE)
    if module is None or not hasattr(module, "dt_parse"):
        return False
    zone = module.dt_parse("2026-01-01T00:00:00.000000Z").tzinfo
    module.dt_parse = lambda text: datetime.fromisoformat(text).replace(tzinfo=zone)  # type: ignore[attr-defined]  # known by name
    return True
