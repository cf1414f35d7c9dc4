"""`ConfigurationStore` over Azure App Configuration. Keys with a label are ignored."""

from __future__ import annotations

from azure.appconfiguration.aio import AzureAppConfigurationClient
from azure.core.credentials_async import AsyncTokenCredential
from azure.core.exceptions import AzureError, ResourceNotFoundError

from shared.errors import ConfigurationUnavailable
from shared.ports.environment import CONFIGURATION_PREFIX, CONFIGURATION_SENTINEL
from shared.time_limits import CONFIGURATION, StoreLimits

#: value of App Configuration's label filter that matches keys without a label
_NO_LABEL = "\0"


class AppConfigurationStore:
    """Implementation of `shared.ports.environment.ConfigurationStore`."""

    def __init__(self, client: AzureAppConfigurationClient) -> None:
        self._client = client

    @classmethod
    def connect(
        cls,
        *,
        connection: str | None,
        endpoint: str | None,
        credential: AsyncTokenCredential | None,
        limits: StoreLimits = CONFIGURATION,
    ) -> AppConfigurationStore:
        if connection is not None:
            return cls(AzureAppConfigurationClient.from_connection_string(connection, **limits.options))
        if endpoint is None or credential is None:
            raise ValueError("the App Configuration client needs a connection string, or an endpoint and a credential")
        return cls(AzureAppConfigurationClient(endpoint, credential, **limits.options))

    async def version(self) -> str | None:
        try:
            sentinel = await self._client.get_configuration_setting(CONFIGURATION_SENTINEL)
        except ResourceNotFoundError:
            return None
        except (AzureError, OSError, TimeoutError, ValueError) as error:
            raise _away(error) from error
        return sentinel.etag if sentinel is not None else None

    async def read(self) -> dict[str, str]:
        try:
            found = self._client.list_configuration_settings(
                key_filter=f"{CONFIGURATION_PREFIX}*", label_filter=_NO_LABEL
            )
            return {setting.key: setting.value or "" async for setting in found}
        except (AzureError, OSError, TimeoutError, ValueError) as error:
            raise _away(error) from error

    async def close(self) -> None:
        await self._client.close()


def _away(error: Exception) -> ConfigurationUnavailable:
    return ConfigurationUnavailable(f"a call to App Configuration failed: {type(error).__name__}")
