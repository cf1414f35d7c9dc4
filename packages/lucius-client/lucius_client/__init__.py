"""A typed client of the LUCIUS HTTP API: `Client` is synchronous, `AsyncClient` runs on asyncio (docs/client.md)."""

from lucius_client.async_client import AsyncClient
from lucius_client.calls import Submitted
from lucius_client.client import Client
from lucius_client.configuration import DEFAULT_URL
from lucius_client.errors import (
    BadAddress,
    BadId,
    BadRequest,
    Conflicting,
    Forbidden,
    JobNotFound,
    KeyConflict,
    LimitReached,
    LuciusError,
    NoResult,
    NotFound,
    NotLucius,
    ProtocolNotFound,
    ProtocolUnknown,
    Refused,
    ResultForbidden,
    ResultGone,
    ResultUnreadable,
    ServerFault,
    StoreUnreachable,
    TooLarge,
    Unauthenticated,
    Unavailable,
    Unreachable,
    WaitTimeout,
)
from lucius_client.results import Result
from lucius_client.retry import Retries

__all__ = [
    "DEFAULT_URL",
    "AsyncClient",
    "BadAddress",
    "BadId",
    "BadRequest",
    "Client",
    "Conflicting",
    "Forbidden",
    "JobNotFound",
    "KeyConflict",
    "LimitReached",
    "LuciusError",
    "NoResult",
    "NotFound",
    "NotLucius",
    "ProtocolNotFound",
    "ProtocolUnknown",
    "Refused",
    "Result",
    "ResultForbidden",
    "ResultGone",
    "ResultUnreadable",
    "Retries",
    "ServerFault",
    "StoreUnreachable",
    "Submitted",
    "TooLarge",
    "Unauthenticated",
    "Unavailable",
    "Unreachable",
    "WaitTimeout",
]
