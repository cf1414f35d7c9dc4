"""Log levels of host.json."""

from __future__ import annotations

import logging
import threading

import pytest

from functions_emulator.host.errors import HostError
from functions_emulator.host.invocation import Invocation, current
from functions_emulator.host.log_levels import LevelFilter

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
    """`Function.NAME.User` is the category of what a function and its SDKs log, in any case."""
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


def test_an_unknown_level_is_named() -> None:
    """The error has the category."""
    with pytest.raises(HostError, match=r"logLevel\.Function must be one of"):
        LevelFilter({"Function": "Loud"})
