from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import azure.durable_functions as df
import pytest

from shared.wiring import Wiring
from tests.memory_stores import MemoryLedger
from tests.operations.conftest import built
from triggers import sweeper_timer


@pytest.mark.parametrize(("sweepers", "names"), [(1, ["sweep"]), (3, ["sweep", "sweep_1", "sweep_2"])])
def test_each_sweeper_is_a_function(sweepers: int, names: list[str]) -> None:
    """On one schedule; the first keeps its name beside any number of others."""
    settings = replace(built(MemoryLedger()).context.settings, sweepers=sweepers)
    app = df.DFApp()
    app.register_functions(sweeper_timer.blueprint(cast(Wiring, SimpleNamespace(settings=settings))))
    found = app.get_functions()
    assert [each.get_function_name() for each in found] == names
    assert {each.get_trigger().schedule for each in found} == {settings.sweep_schedule}
