"""Message counts of the bus, from its management API. The API requires the role Azure Service Bus Data Owner (R56)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from azure.core.credentials_async import AsyncTokenCredential
from azure.core.exceptions import AzureError, HttpResponseError, ResourceNotFoundError

from shared.adapters.servicebus.links import BUS_FAULTS
from shared.core.jobs.routing import DIRECTIVE_TOPIC_PREFIX
from shared.errors import BusUnavailable, CountsForbidden
from shared.time_limits import time_limit

if TYPE_CHECKING:
    from azure.core.pipeline.transport import AsyncHttpTransport
    from azure.servicebus.aio.management import ServiceBusAdministrationClient

#: maximum seconds of one count (R43); a dispatch waits for it, and continues without it
_COUNT_S = 8.0
_FORBIDDEN = (401, 403)


class ServiceBusCounts:
    """Implementation of `shared.ports.bus.Counts` over Azure Service Bus.

    The first count creates the client, since an app without a numeric dispatch limit never counts. `url` is the URL of
    the management API, for example of an emulator, and has an effect only with a connection string. Default: the bus's
    own host name over https.
    """

    def __init__(
        self, *, connection: str | None, namespace: str | None, credential: AsyncTokenCredential | None, url: str | None
    ) -> None:
        self._connection = connection
        self._namespace = namespace
        self._credential = credential
        self._url = url
        self._client: ServiceBusAdministrationClient | None = None

    async def in_flight(self, lane: int, service: str | None) -> int:
        what = f"the count of {DIRECTIVE_TOPIC_PREFIX}{lane}"
        try:
            async with time_limit(_COUNT_S):
                return await self._count(f"{DIRECTIVE_TOPIC_PREFIX}{lane}", service)
        except ResourceNotFoundError:
            # a missing subscription has no messages
            return 0
        except HttpResponseError as error:
            if error.status_code in _FORBIDDEN:
                raise CountsForbidden from error
            raise BusUnavailable(f"{what}: {error.status_code}") from error
        except (AzureError, *BUS_FAULTS) as error:
            raise BusUnavailable(f"{what}: {type(error).__name__}") from error

    async def close(self) -> None:
        """Closes the client. Idempotent."""
        client, self._client = self._client, None
        if client is not None:
            await client.__aexit__()

    async def _count(self, topic: str, service: str | None) -> int:
        client = self._client = self._client or self._connect()
        if service is None:
            found = [each async for each in client.list_subscriptions_runtime_properties(topic)]
        else:
            found = [await client.get_subscription_runtime_properties(topic, service)]
        # negative counts have been observed (paolosalvatori/ServiceBusExplorer, issue 124)
        return sum(max(0, each.active_message_count or 0) for each in found)

    def _connect(self) -> ServiceBusAdministrationClient:
        from azure.servicebus.aio.management import ServiceBusAdministrationClient

        # without retries of the SDK: the caller continues without a count, and reads again in ten seconds
        options: dict[str, Any] = {"retry_total": 0}
        if self._connection is None:
            if self._namespace is None or self._credential is None:
                raise ValueError("the management client needs a connection string, or a namespace and a credential")
            return ServiceBusAdministrationClient(self._namespace, self._credential, **options)
        if self._url is not None:
            options["transport"] = _transport_to(self._url)
        return ServiceBusAdministrationClient.from_connection_string(self._connection, **options)


def _transport_to(url: str) -> AsyncHttpTransport[Any, Any]:
    """Returns a transport that sends every request to `url`, since the SDK only supports https at the host and port of
    the bus.
    """
    from azure.core.pipeline.transport import AioHttpTransport

    class Transport(AioHttpTransport):  # type: ignore[misc]  # loaded late, it is no type
        async def send(self, request: Any, **options: Any) -> Any:
            asked = urlsplit(request.url)
            request.url = f"{url}{asked.path}?{asked.query}"
            return await super().send(request, **options)

    return Transport()
