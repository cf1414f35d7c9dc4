"""The page and the metrics of a bus."""

from __future__ import annotations

import urllib.error
import urllib.request

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.servicebus_emulator.process import Bus, start_bus


def test_the_page_and_the_metrics(own_bus: Bus) -> None:
    """The page names the entities, the metrics are Prometheus text, other paths are not found."""
    with urllib.request.urlopen(own_bus.admin_url) as response:
        page = response.read().decode()
    assert "<td>t/Subscriptions/a</td>" in page
    assert "<td>t</td>" in page
    with urllib.request.urlopen(own_bus.admin_url + "/metrics") as response:
        families = {family.name: family for family in text_string_to_metric_families(response.read().decode())}
    for name, kind in (("connections", "gauge"), ("messages", "gauge"), ("enqueued", "counter")):
        assert families[f"lucius_bus_{name}"].type == kind
    [active] = [
        sample
        for sample in families["lucius_bus_messages"].samples
        if sample.labels == {"entity": "t/Subscriptions/b", "state": "active"}
    ]
    assert active.value == 0
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(own_bus.admin_url + "/nothing")


def test_the_page_sorts_numbers_by_value() -> None:
    """`p2` precedes `p10`."""
    bus = start_bus("--queue", "p10", "--queue", "p2", "--topic", "p3/s")
    try:
        with urllib.request.urlopen(bus.admin_url) as response:
            page = response.read().decode()
    finally:
        assert bus.stop() == 0
    assert page.index("<td>p2</td>") < page.index("<td>p3/Subscriptions/s</td>") < page.index("<td>p10</td>")
