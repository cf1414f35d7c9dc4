"""Counts of all entities as JSON, as an HTML page and as Prometheus metrics."""

from __future__ import annotations

import re
import time
from html import escape

from servicebus_emulator.broker.broker import Broker
from servicebus_emulator.broker.topic import Topic

_STATES = ("active", "locked", "deferred", "scheduled", "dead_letter")
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_STYLE = """
:root { color-scheme: light dark; font: 15px/1.4 system-ui, sans-serif; }
body { margin: 1.5rem auto; max-width: 70rem; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; }
th, td { padding: .3rem .6rem; text-align: right; border-bottom: 1px solid #8884; font-variant-numeric: tabular-nums; }
th:first-child, td:first-child { text-align: left; }
tr.idle { opacity: .55; }
td.dead { color: #c33; color: light-dark(#b22, #f77); font-weight: 600; }
"""


def counts(broker: Broker) -> dict[str, dict[str, int]]:
    """Returns counts of every queue and subscription by path.

    `active` includes locked messages. `enqueued` is the last sequence number. A scheduled message uses a second number
    when it is enqueued.
    """
    counts_by_path = {}
    for destination in broker.destinations.values():
        entity = destination.entity
        if isinstance(entity, Topic):
            counts_by_path.update({item.queue.path: item.queue.counts() for item in entity.subscriptions.values()})
        else:
            counts_by_path[entity.path] = entity.counts()
    return counts_by_path


def metrics(broker: Broker, connections: int) -> str:
    """Returns metrics as Prometheus text, of the content type `METRICS_TYPE`."""
    lines = [
        "# HELP lucius_bus_connections Number of open client connections.",
        "# TYPE lucius_bus_connections gauge",
        f"lucius_bus_connections {connections}",
        "# HELP process_cpu_seconds_total Seconds of CPU time used.",
        "# TYPE process_cpu_seconds_total counter",
        f"process_cpu_seconds_total {time.process_time():.3f}",
        "# HELP lucius_bus_messages Number of messages by entity and state. Active includes locked messages.",
        "# TYPE lucius_bus_messages gauge",
    ]
    everything = counts(broker)
    for path, entry in everything.items():
        label = _label(path)
        lines += [f'lucius_bus_messages{{entity="{label}",state="{state}"}} {entry[state]}' for state in _STATES]
    lines += [
        "# HELP lucius_bus_enqueued_total Number of accepted messages. A scheduled message counts again when due.",
        "# TYPE lucius_bus_enqueued_total counter",
    ]
    lines += [
        f'lucius_bus_enqueued_total{{entity="{_label(path)}"}} {entry["enqueued"]}'
        for path, entry in everything.items()
    ]
    lines += [
        "# HELP lucius_bus_size_bytes Bytes of active and deferred messages.",
        "# TYPE lucius_bus_size_bytes gauge",
    ]
    lines += [f'lucius_bus_size_bytes{{entity="{_label(queue.path)}"}} {queue.size_bytes}' for queue in broker.queues()]
    return "\n".join(lines) + "\n"


def _label(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def page(broker: Broker, connections: int) -> str:
    """Returns an HTML page that reloads itself every five seconds."""
    head = "".join(f"<th>{state.replace('_', ' ')}</th>" for state in _STATES)
    entries = sorted({**counts(broker), **_topics(broker)}.items(), key=lambda item: _numbers_in_order(item[0]))
    rows = "".join(_row(path, entry) for path, entry in entries)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta http-equiv="refresh" content="5">'
        '<meta name="viewport" content="width=device-width"><title>Service Bus emulator</title>'
        f"<style>{_STYLE}</style></head><body><h1>Service Bus emulator</h1><p>{connections} connections. "
        '<a href="/entities">JSON</a> <a href="/metrics">metrics</a></p>'
        f"<table><thead><tr><th>entity</th>{head}<th>accepted</th></tr></thead><tbody>{rows}</tbody></table>"
        "</body></html>"
    )


def _numbers_in_order(path: str) -> list[str | int]:
    """Returns a sort key that puts `lane-2` before `lane-10`: text and numbers alternate."""
    return [int(part) if index % 2 else part for index, part in enumerate(re.split(r"([0-9]+)", path))]


def _topics(broker: Broker) -> dict[str, dict[str, int]]:
    """Returns counts of the topics, which have scheduled messages only."""
    topics = [item.entity for item in broker.destinations.values() if isinstance(item.entity, Topic)]
    return {
        topic.path: {"scheduled": len(topic.schedule.messages), "enqueued": topic.last_sequence_number}
        for topic in topics
    }


def _row(path: str, entry: dict[str, int]) -> str:
    cells = "".join(
        f'<td class="dead">{entry[state]}</td>'
        if "dead" in state and entry.get(state)
        else f"<td>{entry.get(state, '')}</td>"
        for state in _STATES
    )
    idle = "" if any(entry.get(state) for state in _STATES) else ' class="idle"'
    return f"<tr{idle}><td>{escape(path)}</td>{cells}<td>{entry['enqueued']}</td></tr>"
