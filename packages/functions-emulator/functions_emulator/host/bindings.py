"""Creates the readers and writers of the bindings that an app uses. The SDK of an unused service is not imported."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from functions_emulator.host.functions import Binding, Function
from functions_emulator.host.host_json import HostJson
from functions_emulator.host.indexing import App
from functions_emulator.host.invoker import InputReader, OutputWriter
from functions_emulator.host.settings import Settings

if TYPE_CHECKING:
    from functions_emulator.host.storage_queue import QueueOptions

_POISON_BLOBS = "webjobs-blobtrigger-poison"


def make_bindings(
    app: App, settings: Settings, host_json: HostJson
) -> tuple[dict[str, InputReader], dict[str, OutputWriter]]:
    """Returns readers and writers by binding type."""
    binding_types = {binding.type for one in app.functions for binding in (*one.inputs, *one.outputs)}
    readers: dict[str, InputReader] = {}
    writers: dict[str, OutputWriter] = {}
    if "serviceBus" in binding_types:
        from functions_emulator.host.service_bus_output import ServiceBusWriter

        writers["serviceBus"] = ServiceBusWriter(settings)
    if "queue" in binding_types:
        from functions_emulator.host.storage_queue import QueueWriter

        writers["queue"] = QueueWriter(settings, encode=queue_options(host_json).base64)
    if "blob" in binding_types:
        from functions_emulator.host.storage_blob import BlobStorage

        readers["blob"] = writers["blob"] = BlobStorage(settings)
    if "table" in binding_types:
        from functions_emulator.host.storage_table import TableStorage

        readers["table"] = writers["table"] = TableStorage(settings)
    return readers, writers


def queue_options(host_json: HostJson) -> QueueOptions:
    """Returns the options of storage queues in host.json."""
    from functions_emulator.host.storage_queue import QueueOptions

    return QueueOptions(
        batch_size=host_json.number("extensions.queues.batchSize", 16),
        max_dequeue_count=host_json.number("extensions.queues.maxDequeueCount", 5),
        # Azure's default is a minute, which is too long for development.
        max_poll_s=host_json.seconds("extensions.queues.maxPollingInterval", 2.0),
        visibility_s=host_json.seconds("extensions.queues.visibilityTimeout", 0.0),
        base64=host_json.text("extensions.queues.messageEncoding", "base64") == "base64",
    )


def poison_blobs(settings: Settings, options: QueueOptions) -> Callable[[Function, str], Awaitable[None]]:
    """Returns a function that sends the message about a failed blob to the queue `webjobs-blobtrigger-poison`."""
    from functions_emulator.host.storage_queue import QueueWriter

    writer = QueueWriter(settings, encode=options.base64)

    async def give_up(function: Function, text: str) -> None:
        fields = {"queueName": _POISON_BLOBS, "connection": function.trigger.fields.get("connection")}
        await writer.write(Binding("queue", "poison", "OUT", fields), text, {})

    return give_up
