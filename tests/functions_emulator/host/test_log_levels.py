"""Log levels of host.json."""

from __future__ import annotations

import json
import logging
import threading

import pytest

from functions_emulator.host.errors import HostError
from functions_emulator.host.invocation import Invocation, current
from functions_emulator.host.log_levels import LevelFilter
from tests.jobs import ROOT

LEVELS = {"default": "Error", "Function": "Warning", "function.Quiet": "None", "Function.loud.User": "Debug"}


def shows(function: str | None, logger: str, level: int, levels: dict[str, str] = LEVELS) -> bool:
    record = logging.LogRecord(logger, level, __file__, 1, "text", (), None)
    token = current.set(None if function is None else Invocation(function, ""))
    try:
        return bool(LevelFilter(levels).filter(record))
    finally:
        current.reset(token)


@pytest.mark.parametrize(
    ("function", "logger", "level", "shown"),
    [
        ("any", "my.module", logging.WARNING, True),
        ("any", "azure.core", logging.INFO, False),
        ("loud", "azure.core", logging.DEBUG, True),
        ("quiet", "my.module", logging.CRITICAL, False),
        (None, "my.module", logging.WARNING, False),
        (None, "functions_emulator.host", logging.ERROR, True),
    ],
)
def test_the_longest_category_decides(function: str | None, logger: str, level: int, shown: bool) -> None:
    """`Function.NAME.User` is the category of the records of a function and its SDKs, in any case."""
    assert shows(function, logger, level) is shown


def test_all_is_shown_by_default() -> None:
    """Also the INFO lines of SDKs that the app uses, but not those of the host's own."""
    assert shows("any", "azure.core", logging.INFO, {})
    assert not shows(None, "azure.core", logging.INFO, {})
    in_a_thread: list[bool] = []
    thread = threading.Thread(target=lambda: in_a_thread.append(shows(None, "azure.core", logging.INFO, {})))
    thread.start()
    thread.join()
    assert in_a_thread == [True]


def test_the_hosts_own_sdks_have_the_categories_of_microsofts() -> None:
    """`Azure.Core` and `Azure.Messaging.ServiceBus`; `default` is not for them."""
    levels = {"default": "Trace", "Azure.Core": "Information", "Azure.Messaging.ServiceBus": "Error"}
    assert shows(None, "azure.core.pipeline", logging.INFO, levels)
    assert not shows(None, "azure.servicebus.receiver", logging.WARNING, levels)
    assert not shows(None, "azure.core.pipeline", logging.INFO, {"default": "Trace"})
    assert shows(None, "azure.core.pipeline", logging.WARNING, {"default": "Trace"})


@pytest.mark.parametrize("file", ["host.json", "host.AzureStorage.json"])
def test_the_apps_file_silences_what_floods_the_log(file: str) -> None:
    """INFO lines of the host's SDKs and of the Durable extension are hidden; those of the app and the host are not."""
    levels = json.loads((ROOT / file).read_text())["logging"]["logLevel"]
    for logger in ("azure.core.pipeline", "azure.servicebus.receiver", "functions_emulator.durable"):
        assert not shows(None, logger, logging.INFO, levels)
        # each 404 of a storage client is a warning of Azure.Core
        assert shows(None, logger, logging.WARNING, levels) is (logger != "azure.core.pipeline")
        assert shows(None, logger, logging.ERROR, levels)
    assert shows("settle", "lucius", logging.INFO, levels)
    assert shows(None, "functions_emulator.host", logging.INFO, levels)


def test_an_unknown_level_is_named() -> None:
    """The error has the category."""
    with pytest.raises(HostError, match=r"logLevel\.Function must be one of"):
        LevelFilter({"Function": "Loud"})
