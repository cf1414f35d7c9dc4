"""HTML pages without scripts: the list of traces, one trace as a waterfall, and the metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from urllib.parse import quote

from emulator.traces.otlp import Point, Span
from emulator.traces.trace_buffer import JOB, Trace
from emulator.traces.waterfall import rows

#: minimum width of a bar in per cent; a narrower one would be invisible
_MIN_WIDTH = 0.3
_HUES = 7

_STYLE = """
:root { color-scheme: light dark; --line: light-dark(#d8dce2, #3a3f47); --soft: light-dark(#5b6470, #9aa3af);
  --bad: light-dark(#b3261e, #ff8a80); --card: light-dark(#f6f7f9, #1d2025);
  --h0: light-dark(#3b6fd4, #7ea6ff); --h1: light-dark(#1b7f5a, #66d0a5); --h2: light-dark(#a25a00, #ffb868);
  --h3: light-dark(#7a3fb8, #c79bff); --h4: light-dark(#00707d, #5fd0de); --h5: light-dark(#a3325f, #ff96bd);
  --h6: light-dark(#5d6b00, #c3d24f); }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 90rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; } th, td { text-align: left; padding: .35rem .6rem;
  border-bottom: 1px solid var(--line); vertical-align: top; } th { color: var(--soft); font-weight: 500; }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
h1, td { overflow-wrap: anywhere; } code { font: 13px/1.45 ui-monospace, monospace; }
.soft { color: var(--soft); } .bad { color: var(--bad); } nav a { margin-right: 1rem; }
input, button { font: inherit; max-width: 100%; } .waterfall { min-width: 46rem; } .scroll { overflow-x: auto; }
details { border-bottom: 1px solid var(--line); } summary { display: grid; grid-template-columns: 24rem 1fr 6rem;
  gap: .6rem; align-items: center; cursor: pointer; padding: .15rem 0; list-style: none; }
summary::-webkit-details-marker { display: none; } summary:hover, summary:focus-visible { background: var(--card); }
.name { overflow: hidden; text-overflow: ellipsis; white-space: nowrap; } .lane { position: relative; height: 1rem; }
.bar { position: absolute; top: .15rem; bottom: .15rem; border-radius: 2px; } .took { text-align: right;
  font-variant-numeric: tabular-nums; } dl { background: var(--card); margin: 0 0 .4rem; padding: .6rem 1rem;
  display: grid; grid-template-columns: max-content 1fr; gap: .1rem 1rem; } dd { margin: 0; overflow-wrap: anywhere; }
:target > summary { outline: 2px solid var(--soft); } .key { display: inline-block; width: .8rem; height: .8rem;
  border-radius: 2px; margin: 0 .3rem 0 1rem; vertical-align: -.1rem; }
"""


def overview(traces: Sequence[Trace], prefix: str, *, all_: bool) -> str:
    """Returns the list of traces. `prefix` is the content of the search field. `all_` is `True` if the list also has
    traces without a job.
    """
    body = "".join(_trace_row(trace) for trace in traces)
    if not body:
        why = "no trace matches" if prefix else "no trace of a job yet: submit a job, and load this page again"
        body = f'<tr><td colspan="6" class="soft">{why}</tr>'
    other = '<a href="/">traces of jobs only</a>' if all_ else '<a href="/?all">all traces</a>'
    return _document(
        "Traces",
        f'<h1>Traces</h1><form method="get" action="/"><input name="job" size="44" value="{escape(prefix)}" '
        'placeholder="job id or trace id begins with" aria-label="job id or trace id begins with"> '
        f"<button>find</button></form><p>{other}</p>"
        '<table><thead><tr><th>began<th>trace<th>jobs<th>services<th class="number">spans<th class="number">took</tr>'
        "</thead>"
        f"<tbody>{body}</tbody></table>",
    )


def detail(trace: Trace) -> str:
    """Returns one trace as a waterfall."""
    services = sorted({span.service for span in trace.spans})
    hues = {service: index % _HUES for index, service in enumerate(services)}
    keys = "".join(
        f'<span class="key" style="background:var(--h{hues[service]})"></span>{escape(service)}' for service in services
    )
    waterfall = "".join(
        _span_row(row.span, row.depth, row.left, row.width, hues[row.span.service], trace.start_ns)
        for row in rows(trace)
    )
    dropped = f'<p class="bad">{trace.dropped} more spans were dropped</p>' if trace.dropped else ""
    return _document(
        trace.trace_id,
        f"<h1>{escape(trace.root.name)}</h1><p>{_instant(trace.start_ns)}, {_duration(trace.end_ns - trace.start_ns)}, "
        f"{len(trace.spans)} spans{_job_links(trace)}<br><code>{trace.trace_id}</code>{keys}</p>{dropped}"
        f'<div class="scroll"><div class="waterfall">{waterfall}</div></div>',
    )


def metrics(points: Sequence[Point]) -> str:
    """Returns the newest value of each metric."""
    body = "".join(
        f"<tr><td><code>{escape(point.name)}</code><td>{point.kind}<td>{escape(point.service)}"
        f'<td>{_pairs(point.attributes)}<td class="number">{_value(point)}</tr>'
        for point in points
    )
    body = body or '<tr><td colspan="5" class="soft">no metrics yet</tr>'
    return _document(
        "Metrics",
        "<h1>Metrics</h1><table><thead><tr><th>metric<th>kind<th>service<th>attributes<th>value</tr></thead>"
        f"<tbody>{body}</tbody></table>",
    )


def _trace_row(trace: Trace) -> str:
    root = trace.root
    jobs = ", ".join(trace.jobs[:3]) + (f" and {len(trace.jobs) - 3} more" if len(trace.jobs) > 3 else "")
    services = ", ".join(sorted({span.service for span in trace.spans}))
    mark = ' <span class="bad">failed</span>' if trace.failed else ""
    return (
        f'<tr><td>{_instant(trace.start_ns)}<td><a href="/traces/{trace.trace_id}">{escape(root.name)}</a>{mark}'
        f"<td>{escape(jobs)}<td>{escape(services)}"
        f'<td class="number">{len(trace.spans)}<td class="number">{_duration(trace.end_ns - trace.start_ns)}</tr>'
    )


def _job_links(trace: Trace) -> str:
    return "".join(f', <a href="/?job={quote(job, safe="")}">{escape(job)}</a>' for job in trace.jobs[:20])


def _span_row(span: Span, depth: int, left: float, width: float, hue: int, began_ns: int) -> str:
    colour = "var(--bad)" if span.failed else f"var(--h{hue})"
    width = max(width, _MIN_WIDTH)
    bar = f"left:{min(left, 100 - _MIN_WIDTH):.3f}%;width:{min(width, 100 - left):.3f}%;background:{colour}"
    facts = [
        ("service", escape(span.service)),
        ("kind", span.kind),
        ("span", f"<code>{span.span_id}</code>"),
        ("begins after", _duration(span.start_ns - began_ns)),
        *((escape(key), escape(str(value))) for key, value in sorted(span.attributes.items())),
        *(
            ("linked to", f'<a href="/traces/{trace_id}#{span_id}"><code>{span_id}</code></a>')
            for trace_id, span_id in span.links
        ),
    ]
    definitions = "".join(f"<dt>{name}<dd>{value}" for name, value in facts)
    step = span.attributes.get("lucius.attempt_no")
    attempt = f' <span class="soft">#{escape(str(step))}</span>' if step is not None and JOB in span.attributes else ""
    return (
        f'<details id="{span.span_id}"><summary><span class="name{" bad" if span.failed else ""}" '
        f'style="padding-left:{min(depth, 16)}rem">{escape(span.name)}{attempt}</span>'
        f'<span class="lane"><span class="bar" style="{bar}"></span></span>'
        f'<span class="took">{_duration(span.end_ns - span.start_ns)}</span></summary><dl>{definitions}</dl></details>'
    )


def _pairs(attributes: Mapping[str, object]) -> str:
    return " ".join(f"<code>{escape(key)}={escape(str(value))}</code>" for key, value in sorted(attributes.items()))


def _value(point: Point) -> str:
    if point.count is None:
        return f"{point.value:g}"
    mean = point.value / point.count if point.count else 0.0
    unit = f" {point.unit}" if point.unit else ""
    return f"{point.count} values, {mean:.3g}{unit} on average"


def _instant(ns: int) -> str:
    return f"{datetime.fromtimestamp(ns / 1e9, UTC):%Y-%m-%d %H:%M:%S}"


def _duration(ns: int) -> str:
    seconds = ns / 1e9
    if seconds < 1:
        return f"{seconds * 1000:.1f} ms"
    return f"{seconds:.2f} s" if seconds < 120 else f"{seconds / 60:.1f} min"


def _document(title: str, body: str) -> str:
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        '<meta name="viewport" content="width=device-width"><link rel="icon" href="data:,">'
        f'<style>{_STYLE}</style></head><body><nav><a href="/">traces</a><a href="/metrics">metrics</a></nav>'
        f"{body}</body></html>"
    )
