// The page of one job: data, time by use, reason for the state, and actions on the job.
import { html, useEffect, useMemo, useRef, useState } from "../parts/html.js";
import { explainJob, getJob, getReceipt, getRunLog, listJobEvents } from "../api.js";
import { Controls } from "../parts/controls.js";
import * as commands from "../parts/commands.js";
import { CopyAs, CopyButton, curlOf } from "../parts/copy.js";
import { ErrorState, Skeleton, useLoad } from "../parts/load.js";
import { connection, follow, visible } from "../parts/live.js";
import { useKeys } from "../parts/keys.js";
import { link, route, setQuery } from "../parts/route.js";
import { hasEnded, State } from "../parts/state.js";
import { duration, exact, now, secondsBetween, Time } from "../parts/time.js";
import { Timeline } from "../parts/timeline.js";
import { Audit, Events, Request, Steps } from "../parts/job_tabs.js";
import { Run } from "../parts/run_tab.js";

const TABS = { timeline: "Timeline", run: "Run", events: "Events", steps: "Steps", request: "Request", audit: "Audit" };
const isRun = (job) => job.steps.some((step) => step.step_type === "PACK");

async function allEvents(jobId, options) {
  const events = [];
  let cursor;
  do {
    const page = await listJobEvents({ jobId, limit: 1000, cursor }, options);
    events.push(...page.events);
    cursor = page.next;
  } while (cursor);
  return events;
}

const load = async (jobId, options) => {
  const [job, events, receipt, explanation] = await Promise.all([
    getJob({ jobId }, options),
    allEvents(jobId, options),
    getReceipt({ jobId }, options),
    explainJob({ jobId }, options),
  ]);
  return { job, events, receipt, explanation };
};

/** Returns a sentence with the outcome, or with the condition that the job waits for. */
function Summary({ job, receipt, explanation }) {
  const { total } = receipt;
  const names = { service_s: "in services", ack_s: "waiting for ACKs", gated_s: "waiting for quotas or dispatch limits", dependent_s: "waiting for other jobs", backoff_s: "in backoff", backlog_s: "waiting for messages on the lane or for Service Bus", paused_s: "paused" };
  const spent = Object.entries(names).filter(([name]) => total[name] > 0.0005).sort(([one], [other]) => total[other] - total[one]).slice(0, 3).map(([name, words]) => `${duration(total[name])} ${words}`);
  const attempts = `${job.attempts_total} ${job.attempts_total === 1 ? "attempt" : "attempts"}`;
  if (!hasEnded(job.status)) {
    const until = explanation.until && exact(explanation.until, { milliseconds: false });
    return html`<p class="summary clip-lines">${explanation.waits_for ? html`Waits for ${explanation.waits_for}.` : explanation.text}
      <span class="muted"> ${until && `${explanation.gate === "GATED" ? `Checked again at ${until}` : `Until ${until} at the latest`}. `}${explanation.then}</span></p>`;
  }
  const verb = { SUCCEEDED: "Succeeded", FAILED_FINAL: "Failed", CANCELLED: "Cancelled" }[job.status];
  return html`<p class="summary clip-lines">${verb} at ${exact(job.completed_at, { date: false, milliseconds: false })} after ${attempts}.
    ${spent.length > 0 && ` Spent ${spent.join(", ")}.`}</p>
    ${job.error_code && html`<p class="fault clip-any"><b class="mono">${job.error_code}</b> ${job.error_message}</p>`}`;
}

function Related({ job }) {
  const to = (id) => html`<a class="mono" href=${link(["jobs", id])}>${id.slice(0, 12)}</a>`;
  if (!job.redrive_of && !job.redriven_by && !job.replay_of && !job.incident) return null;
  return html`<p class="related">
    ${job.redrive_of && html`<span>Redrive of ${to(job.redrive_of)}</span>`}
    ${job.replay_of && html`<span>Replay of ${to(job.replay_of)}</span>`}
    ${job.redriven_by && html`<span>Redriven by ${to(job.redriven_by)}</span>`}
    ${job.incident && html`<span>Incident <a class="mono" href=${link(["incidents", job.incident])}>${job.incident.slice(0, 16)}</a></span>`}
  </p>`;
}

function Slider({ events, seq, onChange }) {
  const last = events.at(-1).seq;
  const event = events.find((each) => each.seq === seq) ?? events.at(-1);
  return html`<div class="slider">
    <label><span>As of event <b>${seq}</b> of ${last}</span>
      <input type="range" min="1" max=${last} value=${seq} aria-valuetext=${`${event.seq}: ${event.type}`} onInput=${(changed) => onChange(Number(changed.target.value))} /></label>
    <span class="muted clip"><span class="mono">${event.type}</span> ${event.stepId ?? ""} ${exact(event.at, { date: false })}</span>
    <button class="button small quiet" disabled=${seq === last} onClick=${() => onChange(last)}>Latest</button>
  </div>`;
}

export function JobPage({ jobId }) {
  const found = useLoad((options) => load(jobId, options), jobId);
  const { data } = found;
  const asked = route.value.query.get("tab");
  const tab = TABS[asked] && (asked !== "run" || !data || isRun(data.job)) ? asked : "timeline";
  const seq = Number(route.value.query.get("asOf")) || null;
  const past = useLoad((options) => (seq ? getJob({ jobId, asOf: seq }, options) : Promise.resolve(null)), `${jobId}:${seq}`);
  const moving = data && !hasEnded(data.job.status);
  const reload = useRef(found.reload);
  reload.current = found.reload;
  useEffect(() => {
    if (moving === undefined) return undefined;
    if (!moving) return (connection.value = "ended"), () => (connection.value = "polling");
    const stop = follow(data.job.tenant_id, (events, gap) => (gap || events.some((each) => each.data?.jobId === jobId)) && reload.current());
    const poll = setInterval(() => visible.value && connection.value !== "live" && reload.current(), 3000);
    return () => (stop(), clearInterval(poll));
  }, [jobId, moving]);
  const setAsOf = (next) => setQuery({ asOf: next >= data.events.at(-1).seq ? null : next });
  const step = (by) => data && setAsOf(Math.max(1, (seq ?? data.events.at(-1).seq) + by));
  useKeys({ h: () => step(-1), l: () => step(1), ArrowLeft: (event) => (event.target.role === "tab" ? false : step(-1)), ArrowRight: (event) => (event.target.role === "tab" ? false : step(1)) });
  // the bars of a job that has not ended grow every second
  const clock = moving && !seq ? now.value : 0;
  const events = useMemo(() => (data && seq ? data.events.filter((each) => each.seq <= seq) : data?.events), [data, seq]);
  if (found.error && !data) return html`<section class="view"><h1>Job</h1><p class="mono clip">${jobId}</p><${ErrorState} error=${found.error} retry=${found.reload} /></section>`;
  if (!data) return html`<section class="view"><h1 class="mono clip">${jobId}</h1><${Skeleton} rows=${3} height=${24} /><${Skeleton} rows=${6} height=${32} /></section>`;
  const job = (seq && past.data) || data.job;
  const tabs = Object.entries(TABS).filter(([name]) => name !== "run" || isRun(job));
  const until = seq ? events.at(-1).at : data.job.completed_at ?? new Date(Math.max(clock, new Date(data.events.at(-1).at))).toISOString();
  const took = duration(secondsBetween(job.created_at, until));
  const [curl, lucius] = tab === "run" ? [curlOf(getRunLog, { jobId }), commands.runLog(jobId)] : [curlOf(getJob, { jobId, asOf: seq }), commands.job(jobId, seq)];
  const choose = (name) => setQuery({ tab: name === "timeline" ? null : name });
  const onTabKey = (event) => {
    const names = tabs.map(([name]) => name);
    const move = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (move) {
      choose(names[(names.indexOf(tab) + move + names.length) % names.length]);
      requestAnimationFrame(() => document.querySelector('[role="tab"][aria-selected="true"]')?.focus());
    }
  };
  return html`<section class="view" aria-labelledby="title">
    <nav class="crumbs" aria-label="Path"><a href=${link(["jobs"])}>Jobs</a><span aria-hidden="true">/</span><span class="mono clip">${jobId}</span><${CopyButton} small text=${jobId}>copy<//></nav>
    <header class="view-header">
      <h1 id="title" class="clip" title=${job.request_type}>${job.request_type}</h1>
      <${Controls} job=${data.job} onDone=${found.reload} />
    </header>
    <p class="facts">
      <${State} status=${job.status} large />
      <span class="muted">${hasEnded(job.status) ? `in ${took}` : `${took} after creation`}</span>
      <span class="muted">created <${Time} at=${job.created_at} /></span>
      <span class="muted">tenant <b class="clip">${job.tenant_id}</b></span>
      <span class="muted">priority <b>${job.priority}</b></span>
      ${Object.entries(job.labels).map(([key, value]) => html`<span key=${key} class="chip clip" title=${`${key}:${value}`}>${key}:${value}</span>`)}
    </p>
    ${seq ? html`<p class="notice">The page shows the job as of event ${seq}, at ${exact(until)}. Actions, Run and Audit use the current state. <button class="link" onClick=${() => setAsOf(Infinity)}>Show the current state</button></p>`
      : html`<${Summary} job=${data.job} receipt=${data.receipt} explanation=${data.explanation} />`}
    ${past.error && html`<${ErrorState} error=${past.error} retry=${past.reload} compact />`}
    <${Related} job=${data.job} />
    <div class="tabs" role="tablist" aria-label="Parts of the job">
      ${tabs.map(([name, title]) => html`<button key=${name} id=${`tab-${name}`} role="tab" aria-selected=${tab === name} aria-controls="panel" tabindex=${tab === name ? 0 : -1}
        onClick=${() => choose(name)} onKeyDown=${onTabKey}>${title}${name === "events" ? html` <span class="count">${data.events.length}</span>` : ""}</button>`)}
    </div>
    <div id="panel" class="panel" role="tabpanel" tabindex="0" aria-labelledby=${`tab-${tab}`}>
      ${tab === "timeline" && html`<${Timeline} job=${job} events=${events} until=${until} receipt=${seq ? null : data.receipt} />`}
      ${tab === "run" && isRun(job) && html`<${Run} job=${data.job} />`}
      ${tab === "events" && html`<${Events} events=${events} />`}
      ${tab === "steps" && html`<${Steps} job=${job} receipt=${seq ? null : data.receipt} />`}
      ${tab === "request" && html`<${Request} job=${job} />`}
      ${tab === "audit" && html`<${Audit} jobId=${jobId} />`}
    </div>
    ${["timeline", "events", "steps"].includes(tab) && html`<${Slider} events=${data.events} seq=${seq ?? data.events.at(-1).seq} onChange=${setAsOf} />`}
    <footer class="view-footer"><${CopyAs} curl=${curl} lucius=${lucius} /></footer>
  </section>`;
}
