// The live list of jobs, with a filter and bulk actions.
import { html, useEffect, useMemo, useRef, useState } from "../parts/html.js";
import { createBulk, explainJob, getMetrics, listJobs, listProtocols } from "../api.js";
import * as commands from "../parts/commands.js";
import { CopyAs, curlOf } from "../parts/copy.js";
import { FilterBox, parseFilter } from "../parts/filter.js";
import { useKeys } from "../parts/keys.js";
import { VirtualList } from "../parts/list.js";
import { EmptyState, ErrorState, Skeleton, useLoad } from "../parts/load.js";
import { connection, follow, visible } from "../parts/live.js";
import { go, link, route, setQuery, tenant } from "../parts/route.js";
import { may, ownTenant } from "../parts/session.js";
import { colorOf, hasEnded, reasonOf, State } from "../parts/state.js";
import { duration, exact, now, secondsBetween, Time } from "../parts/time.js";
import { BulkBar } from "../parts/bulk.js";

const PAGE = 100;
/** Milliseconds between two reads of counts. The sweeper counts jobs once a minute. */
const COUNTED_EVERY_MS = 60_000;
/** Age in milliseconds from which on the page requests the reason for the state of a job that has not ended. */
const EXPLAINED_AFTER_MS = 5000;

/** Loads the jobs of a filter in pages of the API. Loads the first page again after events or, without a stream, every five seconds. */
function useJobs(values, key) {
  const [state, setState] = useState({ key, jobs: null, next: null, error: null });
  const latest = useRef({});
  latest.current = { values, key, state };
  const load = async (cursor) => {
    const asked = latest.current.key;
    try {
      const page = await listJobs({ ...latest.current.values, limit: PAGE, cursor });
      if (latest.current.key !== asked) return;
      setState((old) => {
        const before = old.key === asked && old.jobs ? old.jobs : [];
        const known = new Set(page.jobs.map((job) => job.jobId));
        if (cursor) return { key: asked, jobs: [...before.filter((job) => !known.has(job.jobId)), ...page.jobs], next: page.next, error: null };
        // jobs older than the first page stay in the list with their last known state
        const oldest = page.jobs.at(-1)?.created_at;
        const rest = page.next && before.length > PAGE ? before.filter((job) => !known.has(job.jobId) && job.created_at < oldest) : [];
        return { key: asked, jobs: [...page.jobs, ...rest], next: rest.length ? old.next : page.next, error: null };
      });
    } catch (error) {
      if (latest.current.key === asked) setState((old) => ({ ...(old.key === asked ? old : { jobs: null, next: null }), key: asked, error }));
    }
  };
  const busy = useRef(false);
  const more = async () => {
    if (busy.current || !latest.current.state.next) return;
    busy.current = true;
    await load(latest.current.state.next);
    busy.current = false;
  };
  useEffect(() => {
    load();
    let timer = 0;
    // one request for many consecutive events
    const soon = () => (timer ||= setTimeout(() => ((timer = 0), visible.value && load()), 400));
    const stop = follow(tenant.value || ownTenant.value, soon);
    const poll = setInterval(() => visible.value && connection.value === "polling" && load(), 5000);
    return () => (stop(), clearInterval(poll), clearTimeout(timer));
  }, [key]);
  const current = state.key === key ? state : { jobs: null, next: null, error: null };
  return { ...current, more, reload: () => load() };
}

const reasons = new Map();

/** Shows the reason for the state of a job that has not ended: first a text by state, later the API's text up to the first semicolon. */
function Why({ job }) {
  const key = `${job.jobId}:${job.seq}`;
  const [, redraw] = useState(0);
  const text = reasons.get(key);
  const shown = visible.value;
  const old = now.value - new Date(job.created_at) > EXPLAINED_AFTER_MS;
  useEffect(() => {
    if (hasEnded(job.status) || !old || !shown || reasons.has(key)) return undefined;
    const control = new AbortController();
    const timer = setTimeout(async () => {
      try {
        const found = await explainJob({ jobId: job.jobId }, { signal: control.signal });
        reasons.set(key, found.waits_for ?? "");
        redraw((count) => count + 1);
      } catch {
        // the text by state stays
      }
    }, 300);
    return () => (clearTimeout(timer), control.abort());
  }, [key, old, shown]);
  const words = text || (job.status === "IN_PROGRESS" ? `${job.current_step_id} ${reasonOf(job.status)}` : reasonOf(job.status));
  return html`<span class="clip-lines" title=${words}>${words.split("; ")[0]}</span>`;
}

/** Shows the duration of an ended job, and the reason of its failure. */
const End = ({ job }) => html`<span class="clip">after ${duration(secondsBetween(job.created_at, job.completed_at))}${job.error_code && html` <b class=${`mono ${colorOf(job.status)}`} title=${job.error_code}>${job.error_code}</b>`}</span>`;

/** Shows the first label, and the number of other labels. */
const Labels = ({ labels }) => labels.length > 0 && html`<span class="chip clip" title=${labels.map((each) => each.join(":")).join("\n")}>${labels[0].join(":")}</span>${labels.length > 1 ? html`<span class="muted">+${labels.length - 1}</span>` : ""}`;

function Row({ job, showTenant, marked, onMark }) {
  return html`
    <span role="cell" class="c-mark">${onMark && html`<input type="checkbox" aria-label=${`Select ${job.jobId}`} checked=${marked} onClick=${onMark} />`}</span>
    <span role="cell" class="c-state"><${State} status=${job.status} /></span>
    <span role="cell" class="c-id"><a class="mono clip" href=${link(["jobs", job.jobId])} title=${job.jobId}>${job.jobId.slice(0, 12)}</a></span>
    <span role="cell" class="c-type clip" title=${job.request_type}>${job.request_type}</span>
    ${showTenant && html`<span role="cell" class="c-tenant clip" title=${job.tenant_id}>${job.tenant_id}</span>`}
    <span role="cell" class="c-why muted">${job.completed_at ? html`<${End} job=${job} />` : html`<${Why} job=${job} />`}</span>
    <span role="cell" class="c-labels"><${Labels} labels=${Object.entries(job.labels)} /></span>
    <span role="cell" class="c-age muted"><${Time} at=${job.created_at} /></span>`;
}

const WAITING = ["WAITING_FOR_JOBS", "THROTTLED", "QUEUED"];
const SHORTCUTS = [["All", []], ["Not ended", [...WAITING, "IN_PROGRESS", "PAUSING", "PAUSED", "CANCELLING"]], ["Waiting", WAITING], ["In progress", ["IN_PROGRESS"]], ["Failed", ["FAILED_FINAL"]], ["Succeeded", ["SUCCEEDED"]]];

/** Shows the buttons of frequent filters. If the filter has only states and a tenant, the buttons of states before the end show counts of the overview. */
function Shortcuts({ text, values, onChange }) {
  const plain = Object.keys(values).every((key) => key === "status");
  const { data } = useLoad(async (options) => (plain ? getMetrics({ tenant: tenant.value }, options) : null), `counts:${tenant.value}:${plain}`, { every: COUNTED_EVERY_MS });
  // the app counts one tenant's jobs for the response, and a sweep those of all tenants; each status is from a sweep
  const known = data && (data.tenant !== null || data.jobs.counted_at !== null);
  const at = data?.jobs.counted_at;
  const age = at ? `Statuses as of ${exact(at, { milliseconds: false })} or earlier` : "No sweep has updated the statuses yet";
  const count = (states) => `${states.reduce((sum, each) => sum + (data.jobs.active[each] ?? 0), 0)}${data.jobs.at_least ? "+" : ""}`;
  return html`<div class="segmented" role="group" aria-label="Filters">${SHORTCUTS.map(([name, states]) => {
    const filter = states.length ? `status=${states.join(",")}` : "";
    const counted = known && states.length > 0 && !states.some(hasEnded) && count(states);
    return html`<button key=${name} aria-pressed=${text === filter} onClick=${() => onChange(filter)} title=${counted ? age : undefined}>${name}${counted && html` <span class="count tabular">${counted}</span>`}</button>`;
  })}</div>`;
}

export function Jobs() {
  const text = route.value.query.get("filter") ?? "";
  const { values, error: wrong } = useMemo(() => parseFilter(text), [text]);
  const filter = { ...values, tenant_id: tenant.value };
  const key = JSON.stringify([text, tenant.value]);
  const found = useJobs(wrong ? {} : filter, key);
  const protocols = useLoad((options) => listProtocols({}, options), "protocols");
  const [marked, setMarked] = useState(() => new Set());
  const [selected, setSelected] = useState(-1);
  useEffect(() => (setMarked(new Set()), setSelected(-1)), [key]);
  const jobs = found.jobs ?? [];
  const last = useRef(-1);
  const mark = (index, event) => {
    const next = new Set(marked);
    const range = event?.shiftKey && last.current >= 0 ? [Math.min(last.current, index), Math.max(last.current, index)] : [index, index];
    const on = !marked.has(jobs[index].jobId);
    for (let each = range[0]; each <= range[1]; each += 1) on ? next.add(jobs[each].jobId) : next.delete(jobs[each].jobId);
    last.current = index;
    setMarked(next);
  };
  const step = (by) => setSelected(Math.max(0, Math.min(jobs.length - 1, selected + by)));
  useKeys({
    j: () => step(1),
    k: () => step(-1),
    x: () => jobs[selected] && mark(selected),
    Enter: (event) => (jobs[selected] && !event.target.closest("a, button") ? go(["jobs", jobs[selected].jobId]) : false),
  });
  const setFilter = (next) => setQuery({ filter: next }, { push: true });
  const types = (protocols.data?.protocols ?? []).map((each) => each.request_type);
  const header = html`<div class="vlist-row vlist-header" role="row" aria-rowindex="1">
    ${["mark", "state", "id", "type", ...(tenant.value ? [] : ["tenant"]), "why", "labels", "age"].map((each) => html`<span key=${each} role="columnheader" class=${`c-${each}`}>
      ${{ mark: html`<span class="hidden">Select</span>`, state: "State", id: "Job", type: "Type", tenant: "Tenant", why: "Reason or duration", labels: "Labels", age: "Created" }[each]}</span>`)}
  </div>`;
  return html`<section class="view fill" aria-labelledby="title">
    <header class="view-header"><h1 id="title">Jobs</h1>
      <${CopyAs} curl=${curlOf(listJobs, filter)} lucius=${commands.jobs(tenant.value, values)} />
    </header>
    <div class="toolbar">
      <${FilterBox} value=${text} onChange=${setFilter} error=${wrong} types=${types} />
      <${Shortcuts} text=${text} values=${values} onChange=${setFilter} />
    </div>
    ${may(createBulk) && html`<${BulkBar} filter=${filter} text=${text} marked=${marked} jobs=${jobs} more=${Boolean(found.next)} onDone=${() => (setMarked(new Set()), found.reload())} />`}
    ${found.error && html`<${ErrorState} error=${found.error} retry=${found.reload} compact=${jobs.length > 0} />`}
    ${found.jobs === null && !found.error && html`<${Skeleton} rows=${12} height=${28} />`}
    ${found.jobs !== null && !jobs.length && !found.error && html`<${EmptyState} title=${text ? "No matching jobs" : "No jobs"}>
      ${text ? html`<p>Change the filter, or <button class="link" onClick=${() => setFilter("")}>show all jobs</button>.</p>`
        : html`<p>Submit a job on the page <a href=${link(["submit"])}>Submit</a>, or in a terminal:</p><pre class="mono">lucius submit FILE --protocol OCR --watch</pre>`}<//>`}
    ${jobs.length > 0 && html`<${VirtualList} label="Jobs" items=${jobs} header=${header} selected=${selected} onEnd=${found.more}
      row=${(job, index) => html`<${Row} job=${job} showTenant=${!tenant.value} marked=${marked.has(job.jobId)} onMark=${may(createBulk) ? (event) => mark(index, event) : null} />`} />`}
    ${jobs.length > 0 && html`<p class="muted small list-foot">${jobs.length}${found.next ? "+" : ""} ${jobs.length === 1 && !found.next ? "job" : "jobs"}</p>`}
  </section>`;
}
