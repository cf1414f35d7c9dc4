"""Selects the shown log records by `logging.logLevel` of host.json and by the category that Microsoft's host gives to a
record.

Records of a function and its SDKs have the category `Function.NAME.User` (LogCategories.cs of azure-webjobs-sdk).
Microsoft's worker sends every such record of level INFO or above (azure_functions_worker/dispatcher.py,
`dispatch_forever`). Records of the host's own SDKs have the category of their event source, `Azure.Core` or
`Azure.Messaging.ServiceBus` (AzureEventSourceLogForwarder.cs of azure-sdk-for-net).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping

from functions_emulator.host.errors import HostError
from functions_emulator.host.invocation import current

#: levels of Microsoft.Extensions.Logging, in lower case
_LEVELS = {
    "trace": logging.NOTSET,
    "debug": logging.DEBUG,
    "information": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "critical": logging.CRITICAL,
    "none": logging.CRITICAL + 1,
}

_OWN = {"functions_emulator.durable": "Host.Triggers.DurableTask", "functions_emulator.host": "Host.General"}


class LevelFilter(logging.Filter):
    """A filter that shows a record if the level of the longest matching category allows it."""

    def __init__(self, levels: Mapping[str, str]) -> None:
        """Sets the levels of host.json by category. `default` is for every other category. Raises `HostError` for an
        unknown level.

        Without `default`, the other categories have no minimum level. `default` does not apply to the host's own SDKs,
        since Microsoft's host uses other SDKs. Their records below WARNING are shown only if host.json names their
        category.
        """
        super().__init__()
        self._levels = {"": logging.NOTSET, "azure.": logging.WARNING}
        for category, level in levels.items():
            if level.lower() not in _LEVELS:
                raise HostError(f"host.json: logging.logLevel.{category} must be one of {', '.join(_LEVELS)}")
            self._levels["" if category.lower() == "default" else category.lower()] = _LEVELS[level.lower()]

    def filter(self, record: logging.LogRecord) -> bool:
        category = _category(record).lower()
        longest = max((one for one in self._levels if category.startswith(one)), key=len)
        return record.levelno >= self._levels[longest]


def _category(record: logging.LogRecord) -> str:
    if record.name in _OWN:
        return _OWN[record.name]
    if _is_hosts_sdk(record):
        return "Azure.Messaging.ServiceBus" if record.name.startswith("azure.servicebus") else "Azure.Core"
    invocation = current.get()
    return f"Function.{invocation.function}.User" if invocation is not None else ""


def _is_hosts_sdk(record: logging.LogRecord) -> bool:
    """Returns True if a record is from an SDK that this host itself uses, on its own thread. Microsoft's host uses
    other SDKs.
    """
    return record.name.startswith("azure.") and record.thread == threading.main_thread().ident and current.get() is None
