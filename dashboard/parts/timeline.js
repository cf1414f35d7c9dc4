// The timeline of a job, with a row for each attempt, divided by the use of its time. Ignored replies are hollow marks.
import { html, useMemo } from "./html.js";
import { duration, exact } from "./time.js";
import { ticksOf, timelineOf, USES } from "./spans.js";

const percent = (part, whole) => `${whole > 0 ? Math.min(100, (100 * part) / whole) : 0}%`;

function Bar({ row, length, start }) {
  const name = row.attempt ? `${row.label} attempt ${row.attempt}` : row.label;
  return html`<div class="tl-row" role="row">
    <div class="tl-label" role="rowheader"><span class="tl-name"><span class="clip">${row.label}</span>${row.end?.bad && html`<span class="tl-fault clip" title=${row.end.text}>${row.end.text}</span>`}</span><span class="muted tabular">${row.attempt ?? ""}</span></div>
    <div class="tl-track" role="cell">
      ${row.carried && html`<span class="tl-note muted">kept the result of the redriven job</span>`}
      ${!row.carried && !row.spans.length && html`<span class="tl-note muted">not started</span>`}
      ${row.spans.map((span) => {
        const text = `${name}: ${USES[span.use]} ${duration(span.to - span.from)}, from ${exact(start + span.from * 1000, { date: false })}`;
        return html`<i key=${span.from + span.use} class=${`tl-span ${span.use}`} title=${text} role="img" aria-label=${text}
          style=${{ left: percent(span.from, length), width: percent(span.to - span.from, length) }} />`;
      })}
      ${row.end && html`<b class=${`tl-end ${row.end.bad ? "bad" : "good"}`} style=${{ left: percent(row.end.at, length) }}
        title=${`${name}: ${row.end.text}`}>${row.end.bad ? "✕" : "✓"}</b>`}
    </div>
  </div>`;
}

/** Shows one ignored reply as a hollow mark on the row of replies. */
const Ghost = ({ reply, length }) => {
  const { event } = reply;
  const text = `${event.data?.reply ?? "reply"} of ${event.stepId ?? "?"} attempt ${event.attempt_no ?? "?"} ignored: ${event.reason}`;
  return html`<i class="tl-ghost" style=${{ left: percent(reply.at, length) }} title=${text} role="img" aria-label=${text} />`;
};

export function Timeline({ job, events, until, receipt }) {
  const { start, end, rows, replies } = useMemo(() => timelineOf(job.steps, events, until), [job, events, until]);
  const length = Math.max(0.001, (end - start) / 1000);
  const used = Object.keys(USES).filter((use) => rows.some((row) => row.spans.some((span) => span.use === use)));
  return html`<div class="timeline" role="table" aria-label="Timeline of the job">
    <div class="tl-axis" aria-hidden="true"><div /><div class="tl-ticks">
      ${ticksOf(length).map((tick) => html`<span key=${tick} style=${{ left: percent(tick, length) }}>${duration(tick)}</span>`)}
    </div></div>
    <div class="tl-rows" role="rowgroup">
      <div class="tl-grid" aria-hidden="true">${ticksOf(length).map((tick) => html`<span key=${tick} style=${{ left: percent(tick, length) }} />`)}</div>
      ${rows.map((row, index) => html`<${Bar} key=${index} row=${row} length=${length} start=${start} />`)}
      ${replies.length > 0 && html`<div class="tl-row" role="row">
        <div class="tl-label" role="rowheader"><span class="clip" title="replies that LUCIUS ignored">ignored</span><span class="muted tabular">${replies.length}</span></div>
        <div class="tl-track" role="cell">${replies.map((reply) => html`<${Ghost} key=${reply.event.seq} reply=${reply} length=${length} />`)}</div>
      </div>`}
    </div>
    <div class="tl-legend">
      ${used.map((use) => html`<span key=${use}><i class=${`tl-swatch ${use}`} />${USES[use]}
        ${receipt && html`<b class="tabular">${duration(receipt.total[`${use}_s`])}</b>`}</span>`)}
    </div>
  </div>`;
}
