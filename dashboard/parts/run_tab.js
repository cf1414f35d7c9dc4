// The log of a run while it grows, and its artifacts.
import { html, useEffect, useLayoutEffect, useRef, useState } from "./html.js";
import { exchange, getRunArtifact, getRunLog, listRunArtifacts } from "../api.js";
import { EmptyState, ErrorState, Skeleton, useLoad } from "./load.js";
import { visible } from "./live.js";
import { hasEnded, Shape } from "./state.js";
import { exact } from "./time.js";

/** Characters that are shown; the command and the API have the whole log. */
const SHOWN = 200000;
const HOLD_S = 20;
const PAUSE_MS = 1000;
const next = (response) => /[?&]after=([0-9.]+)[^>]*>; *rel="next"/.exec(response.headers.get("Link") ?? "")?.[1];

/** Reads the log until the run has ended; each response begins where the one before ended. */
async function read(jobId, onText, signal) {
  let after;
  do {
    const { url, init } = getRunLog.request({ jobId, after, wait: after ? HOLD_S : undefined }, { signal, headers: { Accept: "text/plain" } });
    const { response, body } = await exchange(url, init);
    if (body) onText(body);
    after = next(response);
    // an API with too many waiting readers responds at once
    if (after && !body) await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
  } while (after && !signal.aborted);
}

function useLog(jobId) {
  const [log, setLog] = useState({ text: "", cut: false, complete: false, error: null });
  const shown = visible.value;
  const [tries, setTries] = useState(0);
  useEffect(() => {
    if (!shown) return undefined;
    const control = new AbortController();
    setLog({ text: "", cut: false, complete: false, error: null });
    const add = (text) => setLog((old) => ({ ...old, text: (old.text + text).slice(-SHOWN), cut: old.cut || old.text.length + text.length > SHOWN }));
    read(jobId, add, control.signal).then(
      () => control.signal.aborted || setLog((old) => ({ ...old, complete: true })),
      (error) => error.name === "AbortError" || setLog((old) => ({ ...old, error })),
    );
    return () => control.abort();
  }, [jobId, shown, tries]);
  return { ...log, retry: () => setTries(tries + 1) };
}

function Log({ job }) {
  const log = useLog(job.jobId);
  const box = useRef(null);
  const atEnd = useRef(true);
  useLayoutEffect(() => {
    if (atEnd.current && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [log.text]);
  const onScroll = ({ target }) => (atEnd.current = target.scrollHeight - target.scrollTop - target.clientHeight < 40);
  return html`<article class="card">
    <header><h2>Log</h2><span class=${`state ${log.complete ? "idle" : "active"}`}><${Shape} color=${log.complete ? "good" : "active"} />${log.complete ? "complete" : "live"}</span></header>
    ${log.error && html`<${ErrorState} error=${log.error} retry=${log.retry} compact />`}
    ${log.cut && html`<p class="muted">The last ${SHOWN} characters. The command prints the whole log.</p>`}
    ${log.text || log.complete ? html`<pre class="mono log" role="log" tabindex="0" aria-label="Log of the run" ref=${box} onScroll=${onScroll}>${log.text || "The log is empty."}</pre>` : !log.error && html`<${Skeleton} rows=${4} />`}
  </article>`;
}

function Artifacts({ job }) {
  const found = useLoad((options) => listRunArtifacts({ jobId: job.jobId }, options), `${job.jobId}:${job.attempts_total}:${job.status}`);
  const [error, setError] = useState(null);
  const open = async (name) => {
    try {
      const { url } = await getRunArtifact({ jobId: job.jobId, name, attempt: found.data.attempt }, { headers: { Accept: "application/json" } });
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
    ${found.data && !rows.length && html`<${EmptyState} title="No artifacts">${hasEnded(job.status) ? "The program left none." : "They are stored when the program ends."}<//>`}
    ${rows.length > 0 && html`<ul class="rows">${rows.map((each) => html`<li key=${each.name}><button class="link mono clip-any" onClick=${() => open(each.name)}>${each.name}</button>
      <span class="muted small tabular" title=${`${each.media_type}, written at ${exact(each.written_at)}`}>${each.size.toLocaleString("en")} bytes</span></li>`)}</ul>`}
  </article>`;
}

export const Run = ({ job }) => html`<div class="run"><${Log} key=${job.jobId} job=${job} /><${Artifacts} job=${job} /></div>`;
