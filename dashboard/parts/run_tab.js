// The log of a run, updated while the log grows, and the artifacts of the run.
import { html, useEffect, useLayoutEffect, useRef, useState } from "./html.js";
import { exchange, getRunArtifact, getRunLog, listRunArtifacts } from "../api.js";
import { EmptyState, ErrorState, Skeleton, useLoad } from "./load.js";
import { parseEvents, pause, visible } from "./live.js";
import { route, setQuery } from "./route.js";
import { hasEnded, Shape } from "./state.js";
import { exact } from "./time.js";

/** Maximum characters of the log on the page. The command and the API return the whole log. */
const SHOWN = 200000;
/** Minimum characters of a full response: 512 KiB at 4 bytes a character. After a shorter response, the page waits for more of the log. */
const FULL = 2 ** 17 - 1;

/** Reads the log of one attempt until the run has ended or the next attempt has a log. */
async function read(jobId, attempt, onText, signal) {
  let after = `${attempt}.0`;
  while (!signal.aborted && parseInt(after) === attempt) {
    const { url, init } = getRunLog.request({ jobId, after }, { signal, headers: { Accept: "text/event-stream" } });
    const { events, retry } = parseEvents((await exchange(url, init)).body ?? "");
    const pieces = events.filter((each) => each.event === "message" && each.data).map((each) => JSON.parse(each.data));
    const own = pieces.filter((each) => each.attempt === attempt);
    const text = own.map((each) => each.text).join("");
    if (text) onText(text);
    if (own.length < pieces.length || events.some((each) => each.event === "end")) return;
    after = events.findLast((each) => each.id)?.id ?? after;
    if (text.length < FULL) await pause(retry ?? 1000, signal);
  }
}

function useLog(jobId, attempt) {
  const empty = { text: "", cut: false, complete: false, error: null };
  const [log, setLog] = useState(empty);
  const shown = visible.value;
  const [tries, setTries] = useState(0);
  useEffect(() => {
    if (!shown) return undefined;
    const control = new AbortController();
    setLog(empty);
    const add = (text) => control.signal.aborted || setLog((old) => ({ ...old, text: (old.text + text).slice(-SHOWN), cut: old.cut || old.text.length + text.length > SHOWN }));
    read(jobId, attempt, add, control.signal).then(
      () => control.signal.aborted || setLog((old) => ({ ...old, complete: true })),
      (error) => error.name === "AbortError" || setLog((old) => ({ ...old, error })),
    );
    return () => control.abort();
  }, [jobId, attempt, shown, tries]);
  return { ...log, retry: () => setTries(tries + 1) };
}

function Log({ job, attempt }) {
  const log = useLog(job.jobId, attempt);
  const box = useRef(null);
  const atEnd = useRef(true);
  useLayoutEffect(() => {
    if (atEnd.current) box.current.scrollTop = box.current.scrollHeight;
  }, [log.text]);
  const ended = hasEnded(job.status);
  const state = log.complete ? "complete" : log.error || ended ? "" : "live";
  const empty = log.complete ? "The log is empty." : log.error ? "" : ended ? "Loading" : "Waiting for output.";
  const onScroll = ({ target }) => (atEnd.current = target.scrollHeight - target.scrollTop - target.clientHeight < 40);
  return html`<article class="card">
    <header><h2>Log</h2>${state && html`<span class=${`state ${log.complete ? "idle" : "active"}`}><${Shape} color=${log.complete ? "good" : "active"} />${state}</span>`}</header>
    ${log.error && html`<${ErrorState} error=${log.error} retry=${log.retry} compact />`}
    ${log.cut && html`<p class="muted">The page shows the last ${SHOWN.toLocaleString("en")} characters. <code class="mono">lucius run logs</code> prints the whole log.</p>`}
    <pre class="mono log" role="log" tabindex="0" aria-label="Log of the run" ref=${box} onScroll=${onScroll}>${log.text || empty}</pre>
  </article>`;
}

function Artifacts({ job, attempt }) {
  const found = useLoad((options) => listRunArtifacts({ jobId: job.jobId, attempt }, options), `${job.jobId}:${attempt}:${job.attempts_total}:${job.status}`);
  const [error, setError] = useState(null);
  const open = async (name) => {
    try {
      const { url } = await getRunArtifact({ jobId: job.jobId, name, attempt }, { headers: { Accept: "application/json" } });
      const anchor = document.createElement("a");
      anchor.href = url;
      anchor.rel = "noreferrer";
      anchor.click();
    } catch (failed) {
      setError(failed);
    }
  };
  const rows = found.data?.artifacts ?? [];
  return html`<article class="card">
    <header><h2>Artifacts</h2></header>
    ${(found.error || error) && html`<${ErrorState} error=${found.error ?? error} retry=${() => (setError(null), found.reload())} compact />`}
    ${found.loading && html`<${Skeleton} rows=${2} />`}
    ${found.data && !rows.length && html`<${EmptyState} title="No artifacts">${hasEnded(job.status) ? "The attempt stored no artifacts." : "The runner stores artifacts when the program ends."}<//>`}
    ${rows.length > 0 && html`<ul class="rows">${rows.map((each) => html`<li key=${each.name}><button class="link mono clip-any" onClick=${() => open(each.name)}>${each.name}</button>
      <span class="muted small tabular" title=${`${each.media_type}, written at ${exact(each.written_at)}`}>${each.size.toLocaleString("en")} bytes</span></li>`)}</ul>`}
  </article>`;
}

/** Shows the attempt that the user selected, else the last attempt, also when a new attempt begins. */
export function Run({ job }) {
  const last = Math.max(1, job.steps.find((step) => step.step_type === "PACK").attempt_no);
  const asked = Number(route.value.query.get("attempt"));
  const attempt = Number.isInteger(asked) && asked > 0 && asked < last ? asked : last;
  const attempts = Array.from({ length: last }, (_, index) => index + 1);
  return html`${last > 1 && html`<div class="segmented" role="group" aria-label="Attempts">
      ${attempts.map((each) => html`<button key=${each} aria-pressed=${each === attempt} onClick=${() => setQuery({ attempt: each === last ? null : each })}>Attempt ${each}</button>`)}</div>`}
    <div class="run"><${Log} key=${`${job.jobId}:${attempt}`} job=${job} attempt=${attempt} /><${Artifacts} job=${job} attempt=${attempt} /></div>`;
}
